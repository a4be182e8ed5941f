package grpcpolicy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/exthost/exthost/governance/grpcpolicy/pluginv1"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

func TestMain(m *testing.M) {
	processtest.Main(processtest.Sharded(m), map[string]processtest.Verb{"plugin": plugin, "socket": badSocket})
}

// plugin is a child that serves the protocol. Its arguments script it:
//
//	name=N, category=C, commit=H, flows=A,B   reported metadata
//	configure=TEXT                            the error of Configure
//	ready=N                                   the CheckReady call that succeeds; 0 is none
//	die=RPC, hang=RPC                         calls at which it exits or hangs
//	journal=FILE                              file of the allowed ids, as entries
func plugin(words string) {
	s := &server{journal: os.Stderr}
	for _, word := range strings.Fields(words) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "name":
			s.meta.Name = value
		case "category":
			s.meta.Category = value
		case "commit":
			s.meta.CommitHash = value
		case "flows":
			s.meta.Flows = strings.Split(value, ",")
		case "configure":
			s.configure = value
		case "ready":
			fmt.Sscan(value, &s.readyAt)
			s.polled = true
		case "die":
			s.die = value
		case "hang":
			s.hang = value
		case "journal":
			f, err := os.OpenFile(value, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			must(err)
			s.journal = f
		}
	}
	l, err := net.Listen("unix", os.Getenv("MCPV_PLUGIN_SOCKET"))
	must(err)
	s.grpc = serverOf(s)
	must(s.grpc.Serve(l))
	time.Sleep(time.Hour) // a plugin without a socket runs until it is killed
}

func serverOf(s *server) *grpc.Server {
	g := grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.MaxSendMsgSize(64<<20), grpc.UnaryInterceptor(s.misbehave))
	pluginv1.RegisterPluginServiceServer(g, s)
	return g
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "E!", err)
		processtest.Exit(96)
	}
}

type server struct {
	pluginv1.UnimplementedPluginServiceServer
	meta      pluginv1.PluginMetadata
	configure string
	polled    bool
	readyAt   int32
	polls     atomic.Int32
	die, hang string
	grpc      *grpc.Server

	mu      sync.Mutex
	journal *os.File
}

// misbehave exits or hangs at the calls that the arguments name.
func (s *server) misbehave(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	rpc := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	switch rpc {
	case s.die:
		fmt.Fprintln(os.Stderr, "E! last words")
		processtest.Exit(3)
	case s.hang:
		time.Sleep(time.Hour)
	}
	return next(ctx, req)
}

func (s *server) GetMetadata(context.Context, *emptypb.Empty) (*pluginv1.PluginMetadata, error) {
	return &s.meta, nil
}

func (s *server) Configure(_ context.Context, r *pluginv1.PluginConfigureRequest,
) (*pluginv1.PluginConfigureResponse, error) {
	if s.configure != "" {
		return nil, status.Error(codes.InvalidArgument, s.configure)
	}
	fmt.Println("configured", string(r.ConfigJson))
	return &pluginv1.PluginConfigureResponse{}, nil
}

func (s *server) CheckReady(context.Context, *emptypb.Empty) (*pluginv1.PluginReadyResponse, error) {
	if s.polled && s.polls.Add(1) != s.readyAt {
		return &pluginv1.PluginReadyResponse{Message: "warming up"}, nil
	}
	return &pluginv1.PluginReadyResponse{Ready: true}, nil
}

func (s *server) Shutdown(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	fmt.Fprintln(s.journal, "shutdown")
	return &emptypb.Empty{}, nil
}

func (s *server) HandleRequest(ctx context.Context, r *pluginv1.PluginHandleRequest,
) (*pluginv1.PluginHandleResponse, error) {
	return s.handle(ctx, r)
}

func (s *server) HandleResponse(ctx context.Context, r *pluginv1.PluginHandleRequest,
) (*pluginv1.PluginHandleResponse, error) {
	return s.handle(ctx, r)
}

// handle does as the tool's name says.
func (s *server) handle(ctx context.Context, r *pluginv1.PluginHandleRequest) (*pluginv1.PluginHandleResponse, error) {
	yes := &pluginv1.PluginHandleResponse{Continue: true}
	change := func(json string) { yes.RequestJson, yes.ResponseJson = []byte(json), []byte(json) }
	switch r.ToolName {
	case "empty":
		return &pluginv1.PluginHandleResponse{}, nil
	case "deny":
		return &pluginv1.PluginHandleResponse{RejectCode: "C1", RejectMessage: "because"}, nil
	case "tell": // the message it got, with a change that a rejection makes void
		return &pluginv1.PluginHandleResponse{RejectMessage: protojson.Format(r), RequestJson: []byte(`{}`)}, nil
	case "echo":
		yes.RequestJson, yes.ResponseJson = r.RequestJson, r.ResponseJson
	case "change":
		change("{\n \"n\": 12345678901234567890}")
	case "array":
		change(`[]`)
	case "garbage":
		change(`{"a":`)
	case "big":
		change(`{"a":"` + strings.Repeat("x", 17<<20) + `"}`)
	case "fail":
		return nil, status.Error(codes.Internal, "the database is away")
	case "unavailable":
		return nil, status.Error(codes.Unavailable, "come back later")
	case "hang": // the deadline may end here before it ends in the host
		<-ctx.Done()
		return nil, ctx.Err()
	case "die":
		processtest.Exit(3)
	case "sever":
		os.Remove(os.Getenv("MCPV_PLUGIN_SOCKET"))
		go s.grpc.Stop()
		<-ctx.Done()
	case "journal":
		return s.approve(r)
	case matrixTool:
		return scripted(ctx, r)
	}
	return yes, nil
}

// approve allows calls whose id does not end in 1, and writes the id to the journal first.
func (s *server) approve(r *pluginv1.PluginHandleRequest) (*pluginv1.PluginHandleResponse, error) {
	id := r.Metadata["request_id"]
	if strings.HasSuffix(id, "1") {
		return &pluginv1.PluginHandleResponse{RejectCode: "odd"}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := stormtest.AddEntry(s.journal, id); err != nil {
		return nil, err
	}
	return &pluginv1.PluginHandleResponse{Continue: true}, nil
}

// badSocket is a child whose socket does not serve the protocol.
func badSocket(what string) {
	path := os.Getenv("MCPD_PLUGIN_SOCKET")
	switch what {
	case "none":
	case "file":
		must(os.WriteFile(path, nil, 0o600))
	case "garbage", "silent":
		l, err := net.Listen("unix", path)
		must(err)
		for {
			c, err := l.Accept()
			must(err)
			if what == "garbage" {
				_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.6\r\nthis is not what you expect, whatever that may be\r\n"))
			}
		}
	}
	time.Sleep(time.Hour)
}

// logged collects log lines.
type logged struct {
	slog.Handler
	spoke chan struct{} // closed by the first line
	mu    sync.Mutex
	lines []string
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		close(l.spoke)
	}
	l.lines = append(l.lines, r.Level.String()+" "+r.Message)
	return nil
}
