package httpserver

import (
	"context"
	"net/http"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Desk is where a person answers for a host: what may run in its directory, and who its clients are and what they see.
type Desk interface {
	// Untrusted returns what waits to be trusted.
	Untrusted(ctx context.Context) ([]status.Untrusted, error)
	// Agree trusts the item with the digest. It returns an error if nothing has that digest any more.
	Agree(ctx context.Context, digest string) error
	// LoadOptions returns how the configuration of the host is read.
	LoadOptions() config.LoadOptions
	// Edit calls edit, which changes the files of the configuration, and then tells all hosts of the user to read their
	// clients again. missed says which of them did not, and why. The error is that of edit, or why the changed
	// configuration is not trusted although the one before was.
	Edit(ctx context.Context, edit func() error) (missed []string, err error)
}

type (
	untrustedList struct {
		Items []status.Untrusted `json:"items"`
	}
	// Agreement is the body of a request to trust something.
	Agreement struct {
		Digest string `json:"digest"` // of what was shown
	}
)

// trustOperations show what waits to be trusted. Without d nothing does.
func trustOperations(d Desk) []operation {
	return []operation{
		{
			method:  "GET",
			path:    "/trust",
			summary: "What has to be trusted before it runs in the directory of the host",
			answer:  untrustedList{},
			handle: func(_ *exthost.Host, r *http.Request) (any, error) {
				if d == nil {
					return untrustedList{[]status.Untrusted{}}, nil
				}
				items, err := d.Untrusted(r.Context())
				return untrustedList{orEmpty(items)}, err
			},
		},
		{
			method:  "POST",
			path:    "/trust",
			summary: "Trust one of these items, if it still is as shown, and reload",
			body:    Agreement{},
			answer:  status.Change{},
			handle: func(h *exthost.Host, r *http.Request) (any, error) {
				var body Agreement
				if err := decode(r, "the digest", &body); err != nil {
					return nil, err
				}
				if body.Digest == "" || d == nil {
					return nil, protocol.Errorf(protocol.InvalidArguments,
						`the digest of an item of GET /trust is needed: {"digest": "sha256:..."}`)
				}
				if err := d.Agree(r.Context(), body.Digest); err != nil {
					return nil, err
				}
				return h.Nodes().Reload(r.Context(), "", operator(r))
			},
		},
	}
}
