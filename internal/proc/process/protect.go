package process

import (
	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/sandbox"
	ask "github.com/exthost/exthost/manifest/sandbox"
)

// Protection returns what this system enforces of a sandbox that asks for a network of its own.
func Protection() sandbox.Protection {
	p, _ := Protect(&sandbox.Policy{Net: ask.Net{ask.NetLoopback}}, false, nil)
	return p
}

// ownNamespaces reports whether a child in a sandbox gets namespaces: for a network of its own, and to bound its
// processes, where c has an init and the system can do that. One that is watched gets none for the latter.
func ownNamespaces(p *sandbox.Policy, c *Containment) bool {
	bound := p != nil && p.Watch == nil && c.initProgram() != "" && !c.noProc.Load() && limited.OfSandbox() > 0
	return (p.Namespaced() || bound) && namespaces() == nil
}

// Protect returns what this system enforces of p for a child in c, which is isolated or not. The error is that
// of its start.
func Protect(p *sandbox.Policy, isolate bool, c *Containment) (sandbox.Protection, error) {
	q := *p
	q.OwnNet = q.Namespaced() && namespaces() == nil
	q.OwnProc = ownNamespaces(p, c) || isolate && CanIsolate
	return q.Check()
}
