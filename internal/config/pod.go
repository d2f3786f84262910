package config

import "github.com/shardctl/shardctl/pkg/tasks/decode"

// Pod says which container of which pod this is, so that a restarted one takes its own keys back at once: restart in
// place. Without it they wait for the lease, as after any death.
type Pod struct {
	UID       string // of the pod; empty: not known
	Container string // its name in the pod
	Dir       string // on a volume of the pod that outlives the container and no more, such as an emptyDir
}

// pod reads both container and dir or neither; the UID is $(POD_UID) where none is written.
func (l settingsReader) pod(n *decode.Node) Pod {
	uid, container, dir := n.Get("uid"), n.Get("container"), n.Get("dir")
	p := Pod{UID: l.Text(uid, ""), Container: l.Text(container, ""), Dir: l.Text(dir, "")}
	written := func(n *decode.Node, text string) bool { return text != "" || n != nil && n.Bad }
	hasContainer, hasDir := written(container, p.Container), written(dir, p.Dir)
	switch {
	case hasContainer && !hasDir:
		l.AddAt(container.Place, "pod.dir",
			"is required with container: a directory that outlives the container and no more, such as an emptyDir")
	case hasDir && !hasContainer:
		l.AddAt(dir.Place, "pod.container", "is required with dir: the container's name in its pod")
	case !hasContainer && p.UID != "":
		l.AddAt(uid.Place, "pod", "needs container and dir with uid: all three, or none")
	case hasContainer && p.UID == "":
		p.UID, _ = l.opts.Env("POD_UID")
	}
	return p
}
