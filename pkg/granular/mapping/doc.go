/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package mapping defines which permission each field needs: by the built-in mapping, by markers in
// the schemas of this server, and by stored FieldPermissionMappings (KEP-3617, "Permission
// Description System"). For example, the built-in mapping of labels
//
//	path: metadata.labels[*]
//	permission: label
//	parameter: {treatment: SlashDelimitedPrefix}
//
// makes the verb "granular:label(example.com)" for a change of metadata.labels["example.com/tier"].
//
// Invariants:
//
//   - Rules that contradict each other cover nothing, and neither does an invalid mapping. If an invalid
//     mapping excludes fields, every change of its resources is excluded, because it is not known which
//     fields it should protect.
//   - A field that is excluded in one version of a resource is protected in all versions: if a version has no
//     exclusion with the same permission, every write in that version needs the permission. If the permission
//     has a parameter, which is then unknown, every write in that version is denied. The same holds for requests
//     whose object does not show the field, such as bindings.
//   - Mappings and markers cannot change the built-in mapping, and cannot name fields that the server owns.
//   - A marker that cannot be understood is an error, never ignored.
//   - A Table is immutable. Two tables with the same rules have the same digest, in every process.
//   - Expressions are bounded in size and in cost. An expression that fails excludes the change, or makes
//     no verb.
//
// The package asks no authorizer. It must not import packages that use HTTP, storage or policies.
package mapping
