package natsclient_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// A DNS lookup without an answer ends with the context of the connection.
func TestNameWithoutAnswer(t *testing.T) {
	processtest.Leaks(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 8)
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{
		PreferGo: true,
		Dial: func(looking context.Context, _, _ string) (net.Conn, error) {
			cancel()
			<-looking.Done()
			select {
			case ended <- looking.Err():
			default:
			}
			return nil, looking.Err()
		},
	}
	access := natsclient.Access{URLs: []string{"nats://nobody.example:4222"}}
	o := access.Options(ctx, "test")
	if c, err := o.Connect(); err == nil {
		c.Close()
		t.Error("it is connected")
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it was looked up until %v", err)
	}
}
