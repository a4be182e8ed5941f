package link

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/wire"
)

// askedRun is in the place of a run in the subjects of answers to [Link.Ask]. No run has that name,
// and subjects of answers have one more token than any that another node may publish to.
const askedRun = "asked"

// inbox begins the subjects of answers.
func (l *Link) inbox() string {
	return strings.TrimSuffix(l.o.Subjects.ToRun(wire.Address{Node: l.o.Self.Node, Run: askedRun}), ".>")
}

// Ask sends a request to the servers themselves, such as to JetStream, and returns the answer. After
// an error with [ErrUnsent] nobody gets the request; after any other, somebody may have.
func (l *Link) Ask(ctx context.Context, subject string, header map[string]string, data []byte) ([]byte, error) {
	m := &nats.Msg{Subject: subject, Data: data, Header: make(nats.Header, len(header))}
	for k, v := range header {
		m.Header[k] = []string{v}
	}
	answer, err := l.conn.Load().RequestMsgWithContext(ctx, m)
	switch {
	case err == nil:
		return answer.Data, nil
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%w: no server of the cluster takes %s at the moment", ErrUnsent, subject)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return nil, fmt.Errorf("%w: there is no connection to the cluster", ErrUnsent)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("no answer about %s: %w", subject, context.Cause(ctx))
	}
	return nil, fmt.Errorf("asking about %s: %w", subject, err)
}
