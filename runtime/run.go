package runtime

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// run is an [Instance] with a connection to a process or a server.
type run struct {
	spec  Spec
	open  func(ctx context.Context, s *Spec, d dialect) (*child, *protocol.Error)
	calls atomic.Uint64
	child atomic.Pointer[child] // nil until Serve has opened the connection

	killed atomic.Bool // Kill was called during Serve
}

func newDialect(s *Spec) (dialect, error) {
	switch p := s.Manifest.Transport.Protocol; p {
	case manifest.ProtocolNative, "":
		return &native{spec: s}, nil
	case manifest.ProtocolMCP:
		return newMCP(s), nil
	case manifest.ProtocolLite:
		return newLite(s.Manifest), nil
	default:
		return nil, protocol.Errorf(protocol.ManifestInvalid, "protocol %q is not one of native, mcp, lite", p)
	}
}

// Serve implements [Instance]. An MCP server that ends at server/discover is started once more, with initialize as the
// first request.
func (s *run) Serve(ctx context.Context, ready func()) error {
	c, fault := s.serve(ctx, &s.spec, ready)
	if c != nil && c.endedAtDiscover {
		again := s.spec
		again.InitializeFirst = true
		_, fault = s.serve(ctx, &again, ready)
	}
	if fault != nil {
		return s.spec.withID(fault)
	}
	return nil
}

// serve runs one child until it ends. The child is nil if there was no start.
func (s *run) serve(ctx context.Context, spec *Spec, ready func()) (*child, *protocol.Error) {
	d, err := newDialect(spec)
	if err != nil {
		return nil, faultOf(err, protocol.ManifestInvalid)
	}
	c, fault := s.open(ctx, spec, d)
	if fault != nil {
		return nil, fault
	}
	c.killed = &s.killed
	s.child.Store(c)
	if s.killed.Load() { // after the end of an earlier child
		c.endpoint.Kill()
	}
	return c, c.run(ctx, ready)
}

// Kill implements [Instance].
func (s *run) Kill() {
	if c := s.child.Load(); c != nil {
		s.killed.Store(true) // before Kill: no child is started after it
		c.endpoint.Kill()
	}
}

// Call implements [Instance].
func (s *run) Call(ctx context.Context, r *Request) (json.RawMessage, error) {
	c := s.child.Load()
	if fault := c.available(); fault != nil {
		return nil, s.spec.withID(fault)
	}
	s.calls.Add(1)
	raw, fault := c.call(ctx, r)
	if fault != nil {
		return nil, s.spec.withID(fault)
	}
	return raw, nil
}

// Notify implements [Instance].
func (s *run) Notify(ctx context.Context, method string, params json.RawMessage) error {
	c := s.child.Load()
	if fault := c.available(); fault != nil {
		return s.spec.withID(fault)
	}
	if c.traits.bare {
		return s.spec.withID(noMethod(manifest.ProtocolLite, method))
	}
	if err := c.conn.Notify(ctx, method, params); err != nil {
		return s.spec.withID(c.fault(ctx, err))
	}
	return nil
}

// Handshake implements [Instance].
func (s *run) Handshake() *Handshake {
	if c := s.child.Load(); c != nil {
		return c.handshake.Load()
	}
	return nil
}

// Info implements [Instance].
func (s *run) Info() Info {
	info := Info{Protocol: s.spec.Manifest.Transport.Protocol, Calls: s.calls.Load()}
	c := s.child.Load()
	if c == nil {
		return info
	}
	stats := c.conn.Stats()
	info.StartedAt, info.Installing, info.Stderr = c.startedAt, c.installing(), c.endpoint.Tail()
	info.InFlight, info.Abandoned = stats.InFlight, stats.Abandoned
	info.Late, info.Unknown, info.Noise = stats.Late, stats.Unknown, stats.Noise
	info.Doubt = c.doubts()
	if h := c.handshake.Load(); h != nil {
		info.ProtocolVersion = h.ProtocolVersion
	}
	select {
	case <-c.endpoint.Done():
	default:
		info.PID = c.endpoint.PID()
	}
	return info
}
