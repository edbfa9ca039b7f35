/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package node_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// traces returns what a node could leave on the machine, one text for each.
func traces(t *testing.T, root string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	lines := func(what, text string) {
		for line := range strings.Lines(text) {
			found[what+": "+strings.TrimSpace(line)] = true
		}
	}
	for what, command := range map[string]string{
		"interface": "ip -oneline link | cut -d: -f2", "address": "ip -brief address", "route": "ip route", "rule": "nft --stateless list ruleset", "table of iptables": "cat /proc/net/ip_tables_names /proc/net/ip6_tables_names",
		"mount":                  "findmnt --list --noheadings --output=TARGET,FSTYPE | grep -E \"^(${root}|/run|/var|/proc|/sys)\"", // others may mount elsewhere
		"controllers of cgroups": "cat /sys/fs/cgroup/cgroup.subtree_control",
	} {
		cmd := exec.Command("bash", "-c", "source hack/node/settings.sh; "+command)
		cmd.Dir = root
		out, _ := cmd.Output() // on a machine that lacks a command, node.sh says so
		lines(what, string(out))
	}
	for _, setting := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/ipv4/ip_forward"} {
		content, err := os.ReadFile(filepath.Join("/proc/sys", setting))
		must(t, err)
		lines(setting, string(content))
	}
	// Directories vanish while others look at them.
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			lines("cgroup", path)
		}
		return nil
	})
	for _, pattern := range []string{"/run/*", "/var/lib/*", "/var/log/*", "/etc/*", "/opt/*", "/usr/libexec/*", filepath.Join(root, "artifacts/*/*"), filepath.Join(root, "_output/node")} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		lines("file", strings.Join(files, "\n"))
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, process := range processes {
		if cmdline, err := os.ReadFile(process); err == nil && strings.Contains(string(cmdline), filepath.Join(root, "_output", "node")) {
			lines("process", strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

// added returns the traces that were not there before.
func added(before, after map[string]bool) (lines []string) {
	for line := range after {
		if !before[line] {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}
