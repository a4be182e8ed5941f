package stream

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/protocol"
)

const (
	maxStreams = 4096            // concurrent, of all nodes
	maxOfNode  = maxStreams / 2  // per node
	unread     = 2 * time.Minute // a stream is ended if it is not read for so long
)

// Server serves requests that other runs forward. Its methods may be called concurrently.
type Server struct {
	serve  func(ctx context.Context, w http.ResponseWriter, request []byte)
	log    *slog.Logger
	work   concurrent.Gate
	ctx    context.Context
	cancel context.CancelFunc

	mu   sync.Mutex // guards what follows
	last uint64
	open map[uint64]*response
	of   map[string]int // open streams by node
}

// NewServer returns a server. serve writes the response to a request; its ctx ends when the client
// disconnects.
func NewServer(serve func(ctx context.Context, w http.ResponseWriter, request []byte), log *slog.Logger) *Server {
	s := &Server{serve: serve, log: log, open: make(map[uint64]*response), of: make(map[string]int)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Run handles a call of another run.
func (s *Server) Run(ctx context.Context, from wire.Address, method string, body []byte) ([]byte, error) {
	if method == Open {
		r, err := s.begin(from, body)
		if err != nil {
			return nil, err
		}
		return s.next(ctx, r)
	}
	r := s.find(from, body)
	switch {
	case r == nil && method != Close:
		return nil, protocol.Errorf(protocol.Canceled, "there is no such stream, or nobody has read it for %v", unread)
	case method == More:
		return s.next(ctx, r)
	case method == Close && r != nil:
		s.forget(r)
	case method != Close:
		return nil, protocol.Errorf(protocol.InvalidArguments, "%q is not served between nodes", method)
	}
	return nil, nil
}

// begin starts serving a request.
func (s *Server) begin(from wire.Address, request []byte) (*response, error) {
	if !s.work.Enter() { // forgetLocked calls Leave
		return nil, errLeaves
	}
	begun := false
	defer func() {
		if !begun {
			s.work.Leave()
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxStreams {
		return nil, protocol.Errorf(protocol.Overloaded, "the node serves %d requests of other nodes", maxStreams)
	}
	if s.of[from.Node] >= maxOfNode {
		return nil, protocol.Errorf(protocol.Overloaded, "the node serves %d requests of node %s", maxOfNode, from.Node)
	}
	s.last++
	r := newResponse(s.last, from)
	r.ctx, r.end = context.WithCancel(s.ctx)
	r.left = time.AfterFunc(unread, func() { s.forget(r) })
	if !s.work.Go(func() { s.handle(r, request) }) {
		r.left.Stop()
		r.end()
		return nil, errLeaves
	}
	s.open[r.number], begun = r, true
	s.of[from.Node]++
	return r, nil
}

var errLeaves = protocol.Errorf(protocol.ShuttingDown, "the node leaves the cluster")

// handle runs the handler.
func (s *Server) handle(r *response, request []byte) {
	whole := false
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			s.log.Error("a request that another node carried here broke off", "node", r.from.Node, "panic", p, "stack",
				string(debug.Stack()))
		}
		r.finish(whole)
	}()
	s.serve(r.ctx, r, request)
	whole = true
}

// find returns the stream with a number, if it belongs to run from, else nil.
func (s *Server) find(from wire.Address, number []byte) *response {
	n, err := strconv.ParseUint(string(number), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.open[n]; err == nil && r != nil && r.from == from {
		return r
	}
	return nil
}

// next returns the next piece of a response. ctx ends when the client disconnects.
func (s *Server) next(ctx context.Context, r *response) ([]byte, error) {
	r.left.Stop()
	p, err := r.take(ctx)
	if err != nil || p.Stream == 0 {
		s.forget(r)
		return p.encode(), mayHaveRun(err)
	}
	r.left.Reset(unread)
	return p.encode(), nil
}

// forget ends a stream.
func (s *Server) forget(r *response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(r)
}

func (s *Server) forgetLocked(r *response) {
	if s.open[r.number] == r {
		delete(s.open, r.number)
		if s.of[r.from.Node]--; s.of[r.from.Node] == 0 {
			delete(s.of, r.from.Node)
		}
		s.work.Leave()
	}
	r.left.Stop()
	r.end()
}

// Gone ends the streams of a run that is gone.
func (s *Server) Gone(run wire.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.open {
		if r.from == run {
			s.forgetLocked(r)
		}
	}
}

// Drain refuses further requests, and waits for the open streams to end, at most until ctx ends.
func (s *Server) Drain(ctx context.Context) {
	select {
	case <-s.work.Close():
	case <-ctx.Done():
	}
}

// Close ends all streams, and waits for their handlers to return, at most until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	ended := s.work.Close()
	s.cancel()
	s.mu.Lock()
	for _, r := range s.open {
		s.forgetLocked(r)
	}
	s.mu.Unlock()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
