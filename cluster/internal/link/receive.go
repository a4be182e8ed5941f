package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/cluster/internal/wire"
)

// Hold makes this run the holder of its node's name: it receives messages to wire.NameRun, and may be chosen
// for messages to any node.
func (l *Link) Hold() error {
	l.making.Lock()
	defer l.making.Unlock()
	if l.held {
		return nil
	}
	c := l.conn.Load()
	if err := l.hold(c); err != nil && !c.IsClosed() { // the next connection subscribes, since l.held is set
		return err
	}
	l.held = true
	return nil
}

// hold subscribes c to what the holder of the name receives. The caller holds l.making.
func (l *Link) hold(c *connection) error {
	s := l.o.Subjects
	return errors.Join(l.listen(c, s.ToRun(wire.Address{Node: l.o.Self.Node, Run: wire.NameRun}), "", ToName),
		l.listen(c, s.ToAny(), wire.AnyGroup, ToAny))
}

// subscribe subscribes c to what this run receives. The caller holds l.making.
func (l *Link) subscribe(c *connection) error {
	s := l.o.Subjects
	err := errors.Join(l.listen(c, s.ToRun(l.o.Self), "", ToRun), l.listen(c, s.ToAll(), "", ToAll))
	if l.held {
		err = errors.Join(err, l.hold(c))
	}
	return err
}

func (l *Link) listen(c *connection, subject, group string, way Way) error {
	s, err := c.QueueSubscribe(subject, group, func(m *nats.Msg) {
		if l.tasks.Enter() {
			defer l.tasks.Leave()
			l.received(way, m)
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return s.SetPendingLimits(maxPending, maxPendingBytes)
}

func (l *Link) received(way Way, m *nats.Msg) {
	from, what := l.o.Subjects.From(m.Subject)
	switch {
	case what != "":
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			l.o.NotTaken(what)
		}
	case from != "":
		l.o.Received(Message{From: from, Way: way, Data: m.Data})
	}
}

// state reports a change of c, once its subscriptions are made.
func (l *Link) state(c *connection, connected bool, err error) {
	<-c.ready
	reason := ""
	if !connected {
		reason = "disconnected"
		if err != nil {
			reason = l.describe(err).Error()
		}
	}
	l.o.State(connected, reason)
}

// fault handles an asynchronous error of c. It logs each violation of permissions once.
func (l *Link) fault(c *connection, s *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer) && s != nil:
		l.o.Log.Warn("messages of the cluster come faster than they are handled; some are lost", "subject", s.Subject)
	case errors.Is(err, nats.ErrPermissionViolation):
		l.mu.Lock()
		logged := l.said[err.Error()] || len(l.said) >= maxSaid
		if !logged {
			l.said[err.Error()] = true
		}
		l.mu.Unlock()
		if !logged {
			l.o.Log.Error("the server of the cluster does not permit what this node needs; exthost cluster "+
				"permissions prints what it must permit", "error", err)
		}
	case natsclient.IsRefusal(err):
		l.state(c, false, err)
	default:
		l.o.Log.Debug("the connection to the cluster", "error", err)
	}
}

// describe adds the servers and a remedy to an error of the connection.
func (l *Link) describe(err error) error {
	if err == nil {
		return nil
	}
	where := strings.Join(l.o.URLs, ", ")
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var verify *tls.CertificateVerificationError
	switch {
	case natsclient.IsRefusal(err):
		return fmt.Errorf("%w: %s does not take the credentials of this node (%w); have it invited again", ErrRefused,
			where, err)
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &verify):
		return fmt.Errorf("%w: the certificate of %s is not trusted: %w", ErrRefused, where, err)
	case errors.Is(err, nats.ErrNoServers):
		return fmt.Errorf("no server of the cluster answers at %s", where)
	}
	return fmt.Errorf("the connection to %s: %w", where, err)
}
