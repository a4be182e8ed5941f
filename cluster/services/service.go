package services

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// service is a [jsonrpc.Transport] to a service, over its own NATS connection. The reply subject of a request
// ends in the request's id, so one subscription receives all responses and no table of requests is needed.
// The service sends notifications to the reply subject of a request, or to its event subject. Requests of the
// service are dropped.
type service struct {
	log            *slog.Logger
	access         *access
	requests       string // where requests are published
	events         string // where the service publishes notifications
	inbox          string // prefix of reply subjects
	maxLine        int
	framing        framing
	conn           *nats.Conn
	messages       chan jsonrpc.Message
	ctx            context.Context // its cause is the error of Read
	fail           context.CancelCauseFunc
	closed         chan struct{}   // closed when the last callback of the NATS client has returned
	tasks          concurrent.Gate // message handlers, and doubt
	once           func()
	heard, missing atomic.Uint64 // messages of the service, and requests without a subscriber
	doubted        atomic.Bool   // true while doubt runs
	lossy          atomic.Bool   // a notification has been dropped

	mu   sync.Mutex
	lost *time.Timer // ends the transport; nil while connected
}

var _ jsonrpc.Transport = (*service)(nil)

const (
	flushBound = 500 * time.Millisecond

	maxPending   = 1 << 16  // pending messages per subscription
	maxAnswers   = 1 << 30  // bytes of pending responses
	maxTold      = 1 << 12  // notifications are dropped beyond so many pending messages
	maxToldBytes = 16 << 20 // notifications are dropped beyond so many pending bytes
)

// open connects to the service of s.
func open(ctx context.Context, a *access, s *runtime.Spec) (*service, error) {
	requests, events, err := subjectOf(s)
	if err != nil {
		return nil, err
	}
	v := &service{
		log:      s.Logger,
		access:   a,
		requests: requests,
		events:   events,
		inbox:    nats.NewInbox() + ".",
		maxLine:  s.Options.MaxLineBytes,
		framing:  framing(s.Manifest.Transport.Framing),
		messages: make(chan jsonrpc.Message),
		closed:   make(chan struct{}),
	}
	v.ctx, v.fail = context.WithCancelCause(context.Background())
	v.once = sync.OnceFunc(v.shut)
	defer context.AfterFunc(ctx, func() { v.fail(ctx.Err()) })() // also interrupts the dialing
	o := v.options()
	v.conn, err = o.Connect()
	switch {
	case err == nil:
		// all responses may arrive at once
		answers := min(int64(s.Options.MaxInFlight), maxPending) * min(v.conn.MaxPayload(), maxAnswers)
		if err = v.subscribe(v.inbox+"*", int(min(answers, maxAnswers))+maxToldBytes, v.answered); err == nil {
			err = v.subscribe(v.events, maxToldBytes, v.notified)
		}
	case ctx.Err() != nil:
		err = protocol.Errorf(protocol.Canceled, "the host stopped connecting: %w", ctx.Err())
	default:
		err = a.failed(err)
	}
	if err != nil {
		_ = v.Close()
		return nil, err
	}
	return v, nil
}

func (v *service) options() nats.Options {
	a := v.access
	o := a.Options(v.ctx, "exthost "+v.requests)
	o.DisconnectedErrCB = func(_ *nats.Conn, err error) { v.disconnected(err) }
	o.ReconnectedCB = func(*nats.Conn) { v.reconnected() }
	o.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) { v.fault(err) }
	o.ClosedCB = func(c *nats.Conn) {
		v.fail(a.ended(cmp.Or(c.LastError(), nats.ErrConnectionClosed)))
		close(v.closed)
	}
	return o
}

// subscribe calls take for each message to subject until the transport is closed. bytes bounds the size of the pending
// messages. v.tasks counts the handlers, because the NATS client does not report when the last one returns.
func (v *service) subscribe(subject string, bytes int, take nats.MsgHandler) error {
	s, err := v.conn.Subscribe(subject, func(m *nats.Msg) {
		if v.tasks.Enter() {
			defer v.tasks.Leave()
			take(m)
		}
	})
	if err == nil {
		err = s.SetPendingLimits(maxPending, bytes)
	}
	if err != nil {
		return v.access.ended(cmp.Or(v.conn.LastError(), err))
	}
	return nil
}

// Read implements [jsonrpc.Transport].
func (v *service) Read() (jsonrpc.Message, error) {
	select {
	case m := <-v.messages:
		return m, nil
	case <-v.ctx.Done():
		return jsonrpc.Message{}, context.Cause(v.ctx)
	}
}

// Write implements [jsonrpc.Transport].
func (v *service) Write(_ context.Context, m jsonrpc.Message) error {
	line, err := jsonrpc.Append(nil, &m)
	switch {
	case err != nil:
		return err
	case m.Method == "": // a response to a request of the service; all such requests are dropped
		return nil
	case m.ID == nil:
		return v.publish("", line)
	}
	return v.publish(v.inbox+string(m.ID), line)
}

func (v *service) publish(reply string, line []byte) error {
	line = v.framing.wrap(v.requests, line)
	err := v.conn.PublishMsg(&nats.Msg{Subject: v.requests, Reply: reply, Data: line})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return protocol.Errorf(protocol.LineTooLong,
			"a message of %d bytes was not sent: the NATS server takes %d; raise its max_payload", len(line),
			v.conn.MaxPayload())
	case natsclient.IsUnsent(err):
		fault := protocol.Errorf(protocol.NotReady, "there is no connection to NATS at %s, so the request was not sent",
			strings.Join(v.access.URLs, ", "))
		if last := v.conn.LastError(); last != nil {
			fault.Message += ": " + last.Error()
		}
		return fault
	}
	return jsonrpc.MaybeWritten(protocol.Errorf(protocol.InvalidResponse, "the connection to NATS broke: %w", err))
}

// Close implements [jsonrpc.Transport]. It waits for the callbacks of the NATS client.
func (v *service) Close() error {
	v.once()
	return nil
}

func (v *service) shut() {
	if v.conn != nil && v.ctx.Err() == nil && v.conn.IsConnected() {
		_ = v.conn.FlushTimeout(flushBound) // a cancellation may still be buffered
	}
	v.fail(jsonrpc.ErrClosed)
	if v.conn != nil {
		v.conn.Close()
		<-v.closed
	}
	v.reconnected() // stops the timer
	<-v.tasks.Close()
}

// deliver passes m to Read, or drops it if the transport has ended.
func (v *service) deliver(m jsonrpc.Message) {
	select {
	case v.messages <- m:
	case <-v.ctx.Done():
	}
}

// tell passes a notification to Read. It drops the notification if many messages of the subscription are
// pending, because the NATS client would drop responses if the subscription ran full.
func (v *service) tell(of *nats.Subscription, m jsonrpc.Message) {
	n, bytes, _ := of.Pending()
	if n <= maxTold && bytes <= maxToldBytes {
		v.deliver(m)
	} else if v.lossy.CompareAndSwap(false, true) {
		v.log.Warn("notifications of the service come faster than they are handled; some are lost")
	}
}

// answered handles a message to the reply subject of a request.
func (v *service) answered(m *nats.Msg) {
	id := strings.TrimPrefix(m.Subject, v.inbox)
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		v.noResponder(id)
		return
	}
	v.heard.Add(1)
	if id == probeID {
		return
	}
	line, err := v.framing.unwrap(m.Data)
	if len(line) > v.maxLine {
		fault := protocol.Errorf(protocol.LineTooLong, "its answer of %d bytes is longer than max_line_bytes (%d)",
			len(line), v.maxLine)
		fault.Outcome = "unknown"
		v.deliver(jsonrpc.Message{ID: []byte(id), Raw: line[:v.maxLine], Invalid: fault})
		return
	}
	var d jsonrpc.Message
	if err == nil {
		d, err = jsonrpc.Decode(line)
	}
	switch {
	case err == nil && d.Method != "" && d.ID != nil:
		v.log.Debug("a request of the service is dropped: a host answers none over NATS", "method", d.Method)
		return
	case err == nil && d.Method != "":
		d.Of = []byte(id)
		v.tell(m.Sub, d)
		return
	case err == nil && string(d.ID) != id:
		err = foreign(d.ID)
	}
	if err != nil {
		d = jsonrpc.Message{ID: []byte(id), Raw: line, Invalid: err}
	}
	v.deliver(d)
}

// noResponder handles the server's reply that request id has no subscriber.
func (v *service) noResponder(id string) {
	v.missing.Add(1)
	if id != probeID {
		v.deliver(jsonrpc.Message{ID: []byte(id), Invalid: absent(v.requests)})
	}
	if v.doubted.CompareAndSwap(false, true) {
		v.tasks.Go(v.doubt)
	}
}

// notified handles a message to the event subject. Anybody with permission may publish there, so the message
// neither answers a request nor shows that the service is alive.
func (v *service) notified(m *nats.Msg) {
	line, err := v.framing.unwrap(m.Data)
	if err != nil || len(line) > v.maxLine {
		return
	}
	if d, err := jsonrpc.Decode(line); err == nil && d.Method != "" && d.ID == nil {
		v.tell(m.Sub, d)
	}
}

// fault handles an asynchronous error of the connection.
func (v *service) fault(err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		v.log.Warn("messages of the service come faster than they are handled; some are lost")
	case errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), strconv.Quote(v.events)):
		v.log.Warn("notifications of the service do not come: the NATS server does not permit this host to subscribe "+
			"to them", "subject", v.events)
	case errors.Is(err, nats.ErrPermissionViolation):
		v.fail(notPermitted(v.requests, err))
	default:
		v.log.Debug("the connection to NATS", "error", err)
	}
}
