//go:build slim

package hub

import (
	"context"
	"errors"
)

// Hub is unavailable in this build.
type Hub struct{}

// Open returns an error, since a slim build contains no NATS server.
func Open(context.Context, Options) (*Hub, error) {
	return nil, errors.New("this exthost is a slim build, which has no hub: run the hub with a whole one, or remove " +
		"cluster.hub")
}

// URL returns "".
func (*Hub) URL() string { return "" }

// Close does nothing.
func (*Hub) Close(context.Context) error { return nil }
