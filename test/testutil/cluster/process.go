/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server process. Its pid and log are stored in files, so that another process can
// find and stop it.
type process struct {
	name     string
	dir      string
	detached bool

	exited chan struct{}
	pid    int
}

func (p *process) pidFile() string { return filepath.Join(p.dir, p.name+".pid") }
func (p *process) logFile() string { return filepath.Join(p.dir, p.name+".log") }

// start runs the binary. A detached process continues when this process ends; other processes are
// killed.
func (p *process) start(binary string, args, env []string) error {
	cmd := exec.Command(binary, args...)
	return p.startCommand(cmd, env)
}

func (p *process) startCommand(cmd *exec.Cmd, env []string) error {
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), env...)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if p.detached {
		cmd.SysProcAttr.Setsid = true
	} else {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	p.pid = cmd.Process.Pid
	exited := make(chan struct{})
	p.exited = exited
	go func() {
		_ = cmd.Wait() // reaps the process; its log has the cause of its end
		close(exited)
	}()
	return os.WriteFile(p.pidFile(), []byte(strconv.Itoa(p.pid)), 0o600)
}

// find reads the pid of a process that another process started, and reports whether it runs.
func (p *process) find() bool {
	if p.pid == 0 {
		content, err := os.ReadFile(p.pidFile())
		if err != nil {
			return false
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
		if err != nil {
			return false
		}
		p.pid = pid
	}
	return p.running()
}

// running reports whether the process runs. The pid alone does not tell, because pids are reused, and on a busy machine its command line may not be readable for a moment.
func (p *process) running() bool {
	if p.pid == 0 {
		return false
	}
	if p.exited != nil { // this process has started it
		select {
		case <-p.exited:
			return false
		default:
			return true
		}
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	if err != nil {
		return false
	}
	return strings.Contains(string(cmdline), p.name)
}

// outdated reports whether the binary of the running process has been replaced.
func (p *process) outdated() bool {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid))
	return err == nil && strings.HasSuffix(target, " (deleted)")
}

// stop sends a signal to the process and waits until it has ended.
func (p *process) stop(signal syscall.Signal, timeout time.Duration) error {
	if !p.find() {
		p.pid = 0
		return nil
	}
	if err := syscall.Kill(p.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	for deadline := time.Now().Add(timeout); p.running(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
			deadline = deadline.Add(timeout)
		}
	}
	if p.exited != nil {
		<-p.exited // its port is free only after its memory has been released
	}
	p.pid = 0
	_ = os.Remove(p.pidFile())
	return nil
}

// signal sends a signal to the process.
func (p *process) signal(signal syscall.Signal) error {
	if !p.find() {
		return fmt.Errorf("%s does not run", p.name)
	}
	return syscall.Kill(p.pid, signal)
}

// tail returns the end of the log, for error messages.
func (p *process) tail() string {
	content, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	const keep = 4000
	if len(content) > keep {
		content = content[len(content)-keep:]
	}
	return string(content)
}
