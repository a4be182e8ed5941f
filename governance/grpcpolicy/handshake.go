package grpcpolicy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/grpcpolicy/pluginv1"
	"github.com/exthost/exthost/protocol"
)

const (
	// maxJSON is the largest request or result: the limit of a line on the wire.
	maxJSON = 16 << 20
	// maxMessage holds one request, one result and the other fields.
	maxMessage = 2*maxJSON + 64<<10
	// window is gRPC's flow control window, in bytes.
	window = 1 << 20
)

// errDisconnected marks an error caused by the end of the connection.
var errDisconnected = errors.New("the connection broke")

// handshake connects to the plugin, checks its metadata, configures it and waits until it
// is ready, all within the spec's HandshakeTimeout.
func (s *Service) handshake(alive context.Context, sock *socket, info Info) (*connection, *protocol.Error) {
	ctx, cancel := context.WithTimeout(alive, s.o.Spec.HandshakeTimeout)
	defer cancel()
	if err := sock.waitListening(ctx); err != nil {
		return nil, s.handshakeError(ctx, "listen on its socket", err)
	}
	conn, err := grpc.NewClient("unix:"+sock.path,
		grpc.WithContextDialer(sock.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(window),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.DefaultConfig,
			MinConnectTimeout: s.o.Spec.HandshakeTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, protocol.Errorf(protocol.HandshakeInvalid, "%w", err)
	}
	l := &connection{pluginv1.NewPluginServiceClient(conn), conn}
	if fault := s.configure(ctx, l.client, &info); fault != nil {
		conn.Close()
		return nil, fault
	}
	info.Handshake = time.Since(info.StartedAt)
	s.info.Store(&info)
	return l, nil
}

// configure makes the calls before the first decision.
func (s *Service) configure(ctx context.Context, c pluginv1.PluginServiceClient, info *Info) *protocol.Error {
	meta, err := c.GetMetadata(ctx, &emptypb.Empty{})
	if err != nil {
		return s.handshakeError(ctx, "answer GetMetadata", err)
	}
	if fault := checkMetadata(&s.o.Spec, meta); fault != nil {
		return fault
	}
	info.Metadata = meta
	var config []byte
	if s.o.Spec.Config != nil {
		if config, err = json.Marshal(s.o.Spec.Config); err != nil {
			return protocol.Errorf(protocol.ConfigInvalid, "its config is not JSON: %w", err)
		}
	}
	if _, err := c.Configure(ctx, &pluginv1.PluginConfigureRequest{ConfigJson: config}); err != nil {
		return s.handshakeError(ctx, "accept its config", err)
	}
	return s.awaitReady(ctx, c)
}

// The pauses between two CheckReady calls.
const (
	firstPoll = 10 * time.Millisecond
	lastPoll  = time.Second
)

func (s *Service) awaitReady(ctx context.Context, c pluginv1.PluginServiceClient) *protocol.Error {
	message := ""
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		r, err := c.CheckReady(ctx, &emptypb.Empty{})
		if err == nil && r.GetReady() {
			return nil
		}
		if err == nil {
			message = cmp.Or(strings.TrimSpace(r.GetMessage()), "it does not say why")
			select {
			case <-time.After(pause):
				continue
			case <-ctx.Done():
			}
		}
		if message != "" && (errors.Is(ctx.Err(), context.DeadlineExceeded) ||
			status.Code(err) == codes.DeadlineExceeded) {
			return protocol.Errorf(protocol.HandshakeTimeout, "not ready within %s: %s", s.o.Spec.HandshakeTimeout,
				message)
		}
		return s.handshakeError(ctx, "say whether it is ready", err)
	}
}

// handshakeError returns the error of one step of the handshake.
func (s *Service) handshakeError(ctx context.Context, what string, err error) *protocol.Error {
	state := status.Convert(err)
	switch {
	// the plugin knows the deadline too, and by its clock the deadline may pass earlier
	case errors.Is(ctx.Err(), context.DeadlineExceeded) || state.Code() == codes.DeadlineExceeded:
		return protocol.Errorf(protocol.HandshakeTimeout, "it did not %s within %s", what, s.o.Spec.HandshakeTimeout)
	case ctx.Err() != nil: // the process has ended, or ctx of Serve has
		return protocol.Errorf(protocol.HandshakeInvalid, "it did not %s: %w", what, errDisconnected)
	case state.Code() == codes.Unavailable:
		return protocol.Errorf(protocol.HandshakeInvalid, "it did not %s: %w: %s", what, errDisconnected,
			state.Message())
	}
	return protocol.Errorf(protocol.HandshakeInvalid, "it did not %s: %s (%s)", what, state.Message(), state.Code())
}

// checkMetadata compares the plugin's metadata with the spec. A field that the plugin leaves empty
// passes, except for the commit hash.
func checkMetadata(spec *governance.Spec, meta *pluginv1.PluginMetadata) *protocol.Error {
	wrong := func(what, got, want, next string) *protocol.Error {
		return protocol.Errorf(protocol.HandshakeInvalid,
			"it says that its %s is %q, and the configuration says %q; %s", what, got, want, next)
	}
	name, category := strings.TrimSpace(meta.GetName()), strings.TrimSpace(meta.GetCategory())
	switch {
	case name != "" && name != spec.Name:
		return wrong("name", name, spec.Name, "correct name, or start the right program")
	case category != "" && category != string(spec.Category):
		return wrong("category", category, string(spec.Category), "correct category, or start the right program")
	case spec.CommitHash != "" && meta.GetCommitHash() != spec.CommitHash:
		return wrong("commit", meta.GetCommitHash(), spec.CommitHash,
			"rebuild it at that commit, or correct commit_hash")
	case len(meta.GetFlows()) == 0:
		return nil
	}
	for _, flow := range spec.Flows {
		is := func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), string(flow)) }
		if !slices.ContainsFunc(meta.GetFlows(), is) {
			return wrong("flows", strings.Join(meta.GetFlows(), ", "), string(flow),
				"take the flow out of flows, or start a program that has it")
		}
	}
	return nil
}
