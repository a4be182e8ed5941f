package process

import (
	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/sandbox"
	ask "github.com/exthost/exthost/manifest/sandbox"
)

// Protection returns what this system enforces of a sandbox with its own network.
func Protection() sandbox.Protection {
	p, _ := Protect(&sandbox.Policy{Net: ask.Net{ask.NetLoopback}}, false, nil)
	return p
}

// ownNamespaces reports whether a child in sandbox p gets namespaces: for its own network, or to
// limit its processes if there is an init and the system supports it. A watched child gets no
// namespaces for the limit alone.
func (c *Containment) ownNamespaces(p *sandbox.Policy) bool {
	bound := p != nil && p.Watch == nil && c.initProgram() != "" && !c.noProc.Load() && limited.OfSandbox() > 0
	return (p.Namespaced() || bound) && namespaces() == nil
}

// Protect returns what this system enforces of p for a child in c. The error is the one that the
// start of the child would return.
func Protect(p *sandbox.Policy, isolate bool, c *Containment) (sandbox.Protection, error) {
	q := *p
	q.OwnNet = q.Namespaced() && namespaces() == nil
	q.OwnProc = OwnProc(p, isolate, c)
	return q.Check()
}

// OwnProc reports whether a child in c with sandbox p has a /proc of its own, and a temporary directory.
func OwnProc(p *sandbox.Policy, isolate bool, c *Containment) bool {
	return c.ownNamespaces(p) || isolate && CanIsolate
}
