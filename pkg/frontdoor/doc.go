/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package frontdoor implements the front door, an authorization webhook for kube-apiserver.
// kube-apiserver authorizes a request before it proxies it, and calls the front door before RBAC,
// so that policies apply to requests that pass through kube-apiserver.
//
// Invariants:
//
//   - The front door decides from policies, and works before kube-apiserver does. It has
//     kube-apiserver make two kinds of checks. The first is whether a user may change fields, once for a write on which
//     policies have no opinion, and never for a request that is itself such a check. If no answer arrives in
//     time, the decision is NoOpinion. The second, with an inner door, is whether a user may read what the
//     answer to a write shows.
//   - If a decision depends on conditions, it answers Allow only where a component is known to evaluate them: this server where it
//     serves the request, another aggregated server that enforces conditions, and the inner door where kube-apiserver is known to
//     call it. A kube-apiserver that handles conditions gets them. Everywhere else conditions are folded, to Allow only
//     if every value of them allows.
//   - Where the inner door decides, no policy denies, or could deny, the request or another one that looks the same at
//     admission.
//   - A Deny of a webhook beats an Allow of policies. Webhooks are asked after the policies, so that a slow one keeps no Deny of policies from being
//     answered.
//   - A check that Proviso itself sends to kube-apiserver has the delegation marker, and is
//     never answered Allow: otherwise a policy could be the reason for its own decision.
//   - If it cannot decide, it returns an error, and kube-apiserver applies its failure policy.
//     Clients of kube-apiserver cannot cause that by the content, length or number of their
//     requests: a review that is too long, or not decided in time, is denied.
//   - Authors of policies in a namespace, and clients that choose the user names of reviews about
//     it, keep no slot from reviews about other namespaces.
//   - Only clients with an accepted certificate get an answer.
//
// The package depends neither on storage nor on the main server: package apiserver tells it which
// requests this server enforces.
package frontdoor
