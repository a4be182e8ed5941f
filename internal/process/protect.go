package process

import (
	"github.com/exthost/exthost/internal/sandbox"
	ask "github.com/exthost/exthost/manifest/sandbox"
)

// Protection returns what this system enforces of a sandbox that asks for a network of its own.
func Protection() sandbox.Protection {
	p, _ := Protect(&sandbox.Policy{Net: ask.Net{ask.NetLoopback}}, false)
	return p
}

// Protect returns what this system enforces of p for a child, which is isolated or not. The error is that
// of its start.
func Protect(p *sandbox.Policy, isolate bool) (sandbox.Protection, error) {
	q := *p
	q.OwnNet = q.Namespaced() && namespaces() == nil
	q.OwnProc = q.OwnNet || isolate && CanIsolate
	return q.Check()
}
