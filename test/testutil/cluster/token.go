/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// useToken replaces the client certificate with which Proviso calls kube-apiserver by a token of its ServiceAccount, as a pod
// has it.
func (c *Cluster) useToken(ctx context.Context) error {
	admin, err := c.Client(Admin)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	token, err := client.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, Service, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(c.provisoKubeconfig())
	if err != nil {
		return err
	}
	config.AuthInfos["proviso"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	return clientcmd.WriteToFile(*config, c.provisoKubeconfig())
}
