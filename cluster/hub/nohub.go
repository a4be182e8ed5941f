//go:build nohub

package hub

import (
	"context"
	"errors"
)

// Hub is a NATS server in this process, which this program is built without.
type Hub struct{}

// Open refuses: the program is built without servers.
func Open(context.Context, Options) (*Hub, error) {
	return nil, errors.New("this exthost was built without hubs (the build tag nohub): run the hub with another, or " +
		"remove cluster.hub")
}

// URL is "".
func (*Hub) URL() string { return "" }

// Close does nothing.
func (*Hub) Close(context.Context) error { return nil }
