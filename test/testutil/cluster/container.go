/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// containerEnv is the environment variable with the container that a process is to become.
const containerEnv = "PROVISO_TEST_CONTAINER"

// container is a container as a kubelet would create it from a pod: a read-only root with mounted
// volumes, and a process that is not root.
type container struct {
	Root   string   // the root directory on this machine
	Binary string   // the path of the binary on this machine; it is /Name in the container
	Name   string   // the name of the binary
	Args   []string // the arguments of the process
	Env    []string // the environment of the process
	Mounts []mount
	UID    int // the user and group ID; 0 keeps the user of this process, who is not root
}

type mount struct {
	Source, Target string
	ReadOnly       bool
}

// MaybeContainer turns the process into a container if it was started for that, and then does not
// return. The first line of TestMain calls it.
func MaybeContainer() {
	spec := os.Getenv(containerEnv)
	if spec == "" {
		return
	}
	var c container
	err := json.Unmarshal([]byte(spec), &c)
	if err == nil {
		err = c.become()
	}
	fmt.Fprintln(os.Stderr, "becoming a container:", err)
	os.Exit(1)
}

// become runs in its own mount namespace and, unless started by root, its own user namespace.
func (c *container) become() error {
	runtime.LockOSThread()
	steps := []func() error{
		func() error { return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") },
		func() error { return syscall.Mount(c.Root, c.Root, "", syscall.MS_BIND|syscall.MS_REC, "") },
		c.mountVolumes,
		func() error {
			return syscall.Mount("", c.Root, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
		},
		func() error { return syscall.Chroot(c.Root) },
		func() error { return os.Chdir("/") },
		func() error { return prctl(prSetNoNewPrivs, 1) },
		c.dropRoot,
		// A change of the user clears this setting, so it is set again.
		func() error { return prctl(syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL)) },
		func() error {
			return syscall.Exec("/"+c.Name, append([]string{c.Name}, c.Args...), c.Env)
		},
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

const prSetNoNewPrivs = 38

func prctl(option int, value uintptr) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, uintptr(option), value, 0); errno != 0 {
		return errno
	}
	return nil
}

func (c *container) mountVolumes() error {
	for _, m := range append(c.Mounts, mount{Source: c.Binary, Target: "/" + c.Name, ReadOnly: true}) {
		target := filepath.Join(c.Root, m.Target)
		if err := syscall.Mount(m.Source, target, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
		if !m.ReadOnly {
			continue
		}
		if err := syscall.Mount("", target, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("making %s read-only: %w", m.Target, err)
		}
	}
	return nil
}

func (c *container) dropRoot() error {
	if c.UID == 0 {
		return nil
	}
	if err := syscall.Setgroups([]int{c.UID}); err != nil {
		return err
	}
	if err := syscall.Setgid(c.UID); err != nil {
		return err
	}
	return syscall.Setuid(c.UID)
}

// start runs the container as a process.
func (c *container) start(p *process) error {
	spec, err := json.Marshal(c)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return p.startCommand(cmd, []string{containerEnv + "=" + string(spec)})
}

// startDeployment does the work of the Deployment controller and a kubelet for the Deployment in
// artifacts/: it runs the container with exactly its arguments, its volumes, and the token of its
// ServiceAccount. Only the environment variables with the addresses to listen on differ, and on a managed cluster the addresses of the
// kube-apiservers are arguments.
func (c *Cluster) startDeployment(ctx context.Context) error {
	config, err := c.Client(Admin)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	deployment, err := client.AppsV1().Deployments(Namespace).Get(ctx, Service, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pod := kubelet{client: client, dir: filepath.Join(c.Dir, "pod"), deployment: deployment}
	spec, err := pod.container(ctx, c.binary(Service), map[string]string{
		"BIND_ADDRESS": "127.0.0.1", "SECURE_PORT": fmt.Sprint(c.ports.Proviso), "WEBHOOK_SECURE_PORT": fmt.Sprint(c.ports.FrontDoor),
		"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": fmt.Sprint(c.ports.KubeAPIServer),
	}, c.CAFile())
	if err != nil {
		return err
	}
	if c.Managed {
		spec.Args = append(spec.Args, c.serversArg())
	}
	spec.Args = append(spec.Args, c.answersArgs()...)
	return spec.start(c.Proviso)
}

// kubelet creates a container from a Deployment.
type kubelet struct {
	client     kubernetes.Interface
	dir        string
	deployment *appsv1.Deployment
}

var errUnsafe = errors.New("the Deployment must run as non-root on a read-only root")

func (k *kubelet) container(ctx context.Context, binary string, env map[string]string, caFile string) (*container, error) {
	pod := k.deployment.Spec.Template.Spec
	spec := pod.Containers[0]
	if !ptr.Deref(pod.SecurityContext.RunAsNonRoot, false) || !ptr.Deref(spec.SecurityContext.ReadOnlyRootFilesystem, false) {
		return nil, errUnsafe
	}
	result := &container{Root: filepath.Join(k.dir, "root"), Binary: binary, Name: filepath.Base(binary)}
	if os.Getuid() == 0 {
		result.UID = int(ptr.Deref(pod.SecurityContext.RunAsUser, 0))
	}
	for _, e := range spec.Env {
		if _, ok := env[e.Name]; !ok {
			env[e.Name] = e.Value
		}
	}
	for _, arg := range spec.Args {
		for name, value := range env {
			arg = strings.ReplaceAll(arg, "$("+name+")", value)
		}
		result.Args = append(result.Args, arg)
	}
	for name, value := range env {
		result.Env = append(result.Env, name+"="+value)
	}
	for _, m := range spec.VolumeMounts {
		source, err := k.volume(ctx, pod.Volumes, m.Name, result.UID)
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", m.Name, err)
		}
		result.Mounts = append(result.Mounts, mount{Source: source, Target: m.MountPath, ReadOnly: m.ReadOnly})
	}
	token, err := k.serviceAccount(ctx, pod.ServiceAccountName, caFile, result.UID)
	if err != nil {
		return nil, fmt.Errorf("service account: %w", err)
	}
	result.Mounts = append(result.Mounts, mount{Source: token, Target: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true})
	return result, k.makeRoot(result)
}

// makeRoot creates the mount points. An image FROM scratch has only the binary.
func (k *kubelet) makeRoot(c *container) error {
	for _, m := range c.Mounts {
		if err := os.MkdirAll(filepath.Join(c.Root, m.Target), 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(c.Root, c.Name), nil, 0o755)
}

func (k *kubelet) volume(ctx context.Context, volumes []corev1.Volume, name string, uid int) (string, error) {
	dir := filepath.Join(k.dir, "volumes", name)
	for _, v := range volumes {
		switch {
		case v.Name != name:
			continue
		case v.PersistentVolumeClaim != nil:
			return dir, makeDir(dir, 0o770, uid)
		case v.Secret != nil:
			secret, err := k.client.CoreV1().Secrets(Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			files := secret.Data
			if len(v.Secret.Items) > 0 {
				files = map[string][]byte{}
				for _, item := range v.Secret.Items {
					files[item.Path] = secret.Data[item.Key]
				}
			}
			return dir, writeVolume(dir, files, os.FileMode(ptr.Deref(v.Secret.DefaultMode, 0o644)), uid)
		case v.ConfigMap != nil:
			configMap, err := k.client.CoreV1().ConfigMaps(Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			files := map[string][]byte{}
			for key, value := range configMap.Data {
				files[key] = []byte(value)
			}
			return dir, writeVolume(dir, files, os.FileMode(ptr.Deref(v.ConfigMap.DefaultMode, 0o644)), uid)
		}
	}
	return "", errors.New("not among the volumes of the pod, or of an unknown kind")
}

func (k *kubelet) serviceAccount(ctx context.Context, name, caFile string, uid int) (string, error) {
	request := &authenticationv1.TokenRequest{}
	token, err := k.client.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(k.dir, "volumes", "service-account")
	return dir, writeVolume(dir, map[string][]byte{"token": []byte(token.Status.Token), "ca.crt": ca, "namespace": []byte(Namespace)}, 0o640, uid)
}

// writeVolume writes files as a kubelet does for a pod with an fsGroup.
func writeVolume(dir string, files map[string][]byte, mode os.FileMode, gid int) error {
	if err := makeDir(dir, 0o755, 0); err != nil {
		return err
	}
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := os.WriteFile(file, content, mode|0o040); err != nil {
			return err
		}
		if gid != 0 {
			if err := os.Chown(file, 0, gid); err != nil {
				return err
			}
		}
	}
	return nil
}

func makeDir(dir string, mode os.FileMode, uid int) error {
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	if err := os.Chmod(dir, mode); err != nil {
		return err
	}
	if uid == 0 {
		return nil
	}
	return os.Chown(dir, 0, uid)
}
