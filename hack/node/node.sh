#!/usr/bin/env bash
# node.sh up | down | run COMMAND… | kube-apiserver FLAG…
#
# A real node with its control plane, in namespaces of its own: up starts it, down ends it and removes all of its files, run runs a command in it,
# and kube-apiserver restarts kube-apiserver with these flags beside those that it always has.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

pid() { cat "${dir}/pid" 2>/dev/null; }
runs() { grep -qaF "${here}/init.sh" "/proc/$(pid)/cmdline" 2>/dev/null; }
# enter runs a command in the namespaces. unshare itself is in all of them but the one of processes, which its child has.
enter() {
  runs || { echo "no node runs: make node starts one" >&2; exit 1; }
  nsenter --target="$(pid)" --mount --net --uts --ipc --pid="/proc/$(pid)/ns/pid_for_children" -- env --chdir="${PWD}" "$@"
}
apart() { unshare --mount --net --uts --ipc --pid --fork --mount-proc --kill-child=KILL -- "$@"; }

# With cgroup v1, hybrid or not, each hierarchy is a directory of /sys/fs/cgroup. With cgroup v2 there is one.
hierarchy=/sys/fs/cgroup
v2() { [[ $(stat --file-system --format=%T "${hierarchy}") == cgroup2fs ]]; }
# enable lets the children of a cgroup have a controller.
enable() { grep -qw "$1" "$2/cgroup.subtree_control" || echo "+$1" >"$2/cgroup.subtree_control"; }
has_controller() { if v2; then enable "$1" "${hierarchy}"; else [[ -w ${hierarchy}/$1 ]]; fi; }
make_cgroups() {
  local name
  if v2; then
    mkdir -p "${hierarchy}/${cgroup}"
    # kubelet needs these, as far as the kernel has them.
    for name in cpu cpuset memory hugetlb pids; do
      grep -qw "${name}" "${hierarchy}/cgroup.controllers" || continue
      enable "${name}" "${hierarchy}"
      enable "${name}" "${hierarchy}/${cgroup}"
    done
    return
  fi
  for name in "${hierarchy}"/*/; do
    [[ ${name} == */unified/ ]] || mkdir -p "${name}${cgroup}"
  done
  # A cpuset takes no process before it has processors and memory.
  for name in cpus mems; do cat "${hierarchy}/cpuset/cpuset.${name}" >"${hierarchy}/cpuset/${cgroup}/cpuset.${name}"; done
}
cgroups() { find "${hierarchy}" -depth -type d \( -path "${hierarchy}/${cgroup}*" -o -path "${hierarchy}/*/${cgroup}*" \) "$@"; }
remove_cgroups() {
  local deadline=$((SECONDS + 20))
  while [[ $(cgroups -print -quit) ]]; do
    ((SECONDS < deadline)) || { echo "these cgroups remain:" >&2; cgroups -print >&2; return 1; }
    cgroups -exec rmdir {} + 2>/dev/null || sleep 0.1
  done
  [[ -f ${dir}/controllers ]] || return 0
  # Those that this script, kubelet and runc have enabled since. One stays if another cgroup has begun to use it.
  local name
  for name in $(tr ' ' '\n' <"${hierarchy}/cgroup.subtree_control" | grep -vxF -f <(tr ' ' '\n' <"${dir}/controllers")); do
    echo "-${name}" >"${hierarchy}/cgroup.subtree_control" || true
  done 2>/dev/null
}

# check says what the machine lacks. It tries features of the kernel in namespaces that end at once.
check() {
  local lacks=() name try=${dir}/try
  need() { "${@:2}" >/dev/null 2>&1 || lacks+=("$1"); }
  for name in unshare nsenter ip openssl tar; do need "the command ${name}" command -v "${name}"; done
  for name in containerd runc nft busybox; do need "what ${name} of ${packages} needs to run" "${name}" --help; done
  [[ ${root} != /run/* && ${root} != /var/* ]] || lacks+=("a folder of the repository outside of /run and /var, which the node replaces")
  need "namespaces" apart true
  need "bridges" apart ip link add x type bridge
  need "veth pairs" apart ip link add x type veth peer name y
  need "nftables with NAT" apart nft 'add table ip x; add chain ip x y {type nat hook postrouting priority 0;}'
  mkdir -p "${try}"/{lower,upper,work,mount}
  need "overlayfs on the file system of ${dir}" apart mount --no-mtab -t overlay -o "lowerdir=${try}/lower,upperdir=${try}/upper,workdir=${try}/work" overlay "${try}/mount"
  rm -rf "${try}"
  for name in cpu cpuset memory pids; do need "the cgroup controller ${name}, for children of ${hierarchy}" has_controller "${name}"; done
  ((${#lacks[@]} == 0)) || { printf 'this machine lacks for a node: %s\n' "${lacks[@]}" >&2; return 1; }
}

up() {
  ((EUID == 0)) || { echo "this machine lacks for a node: root" >&2; return 1; }
  if runs; then
    echo "the node runs already"
    return
  fi
  if [[ -e ${dir} ]]; then down; fi
  mkdir -p "${dir}"
  if v2; then cp "${hierarchy}/cgroup.subtree_control" "${dir}/controllers"; fi
  if ! check; then
    down
    return 1
  fi
  echo "starting the node …"
  "${here}/config.sh"
  make_cgroups
  echo --authorization-mode=Node,RBAC >"${dir}/kube-apiserver.flags"
  # The process writes its number itself: up may be killed at any time, and down needs the number.
  setsid bash -c 'echo $$ >"$1" && exec unshare --mount --net --uts --ipc --pid --fork --mount-proc --kill-child=KILL "$2"' bash "${dir}/pid" "${here}/init.sh" >"${dir}/init.log" 2>&1 </dev/null &
  until [[ -f ${dir}/ready ]]; do
    kill -0 $! 2>/dev/null || { cat "${dir}/init.log" >&2; return 1; }
    sleep 0.2
  done
  echo "the node is ready after ${SECONDS} s. A command in it, such as kubectl, begins with hack/node/node.sh run:"
  echo "  hack/node/node.sh run kubectl get pods --all-namespaces"
}

down() {
  if runs; then kill -KILL "$(pid)"; fi
  remove_cgroups
  rm -rf "${dir}"
}

restart_kube_apiserver() {
  printf '%s\n' "$@" >"${dir}/kube-apiserver.flags"
  local old
  old=$(cat "${dir}/kube-apiserver.pid")
  enter kill -KILL "${old}" # without waiting for the requests in flight, which may take a minute
  until [[ $(cat "${dir}/kube-apiserver.pid") != "${old}" ]] && enter kubectl get --raw /readyz >/dev/null 2>&1; do
    ((SECONDS < 60)) || { echo "kube-apiserver did not get ready:" >&2; tail -n 5 "${dir}/logs/kube-apiserver.log" >&2; return 1; }
    sleep 0.2
  done
}

case ${1:-} in
  up) up ;;
  down) down ;;
  run) enter "${@:2}" ;;
  kube-apiserver) restart_kube_apiserver "${@:2}" ;;
  *) sed -n 2p "$0" >&2; exit 2 ;;
esac
