package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Ask sends a request to the servers, such as to JetStream or to a hub, and returns the answer. [ErrUnsent]
// means that nobody gets the request; after any other error somebody may have received it.
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
