//go:build nohub

package hub

import (
	"context"
	"errors"
)

// Hub is unavailable in this build.
type Hub struct{}

// Open returns an error, since this build contains no NATS server.
func Open(context.Context, Options) (*Hub, error) {
	return nil, errors.New("this exthost was built without hubs (the build tag nohub): run the hub with another, or " +
		"remove cluster.hub")
}

// URL returns "".
func (*Hub) URL() string { return "" }

// Close does nothing.
func (*Hub) Close(context.Context) error { return nil }
