package httpserver

import (
	"context"
	"net/http"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Trust shows what must be trusted before it runs in the directory of a host, and takes the answers of a person.
type Trust interface {
	// Untrusted returns what waits for an answer.
	Untrusted(ctx context.Context) ([]status.Untrusted, error)
	// Agree trusts the item with the digest. It returns an error if nothing has that digest any more.
	Agree(ctx context.Context, digest string) error
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

// trustOperations show what waits to be trusted. Without t nothing does.
func trustOperations(t Trust) []operation {
	return []operation{
		{
			method:  "GET",
			path:    "/trust",
			summary: "What has to be trusted before it runs in the directory of the host",
			answer:  untrustedList{},
			handle: func(_ *exthost.Host, r *http.Request) (any, error) {
				if t == nil {
					return untrustedList{[]status.Untrusted{}}, nil
				}
				items, err := t.Untrusted(r.Context())
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
				if body.Digest == "" || t == nil {
					return nil, protocol.Errorf(protocol.InvalidArguments,
						`the digest of an item of GET /trust is needed: {"digest": "sha256:..."}`)
				}
				if err := t.Agree(r.Context(), body.Digest); err != nil {
					return nil, err
				}
				return h.Nodes().Reload(r.Context(), "", operator(r))
			},
		},
	}
}
