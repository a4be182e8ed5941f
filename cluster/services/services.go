// Package services connects a host to extensions that run as services on NATS and answer native JSON-RPC
// requests on a subject.
package services

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/credentials"
	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Services opens transports to extensions of transport nats. Its methods may be called concurrently.
type Services struct{ host cluster.Membership }

var _ runtime.Services = (*Services)(nil)

// New returns a value for exthost.Options.Services. A manifest without transport.url uses host.URLs with
// host.Creds, host.NKey and host.TLS. The servers of an invitation (host.Join) are never used, because a hub
// only carries messages of its cluster.
func New(host cluster.Membership) *Services { return &Services{host} }

// Connect implements [runtime.Services].
func (v *Services) Connect(ctx context.Context, s *runtime.Spec) (jsonrpc.Transport, error) {
	access, err := v.access(s)
	if err != nil {
		return nil, err
	}
	return open(ctx, access, s)
}

// access holds the servers and credentials for a service.
type access struct{ natsclient.Access }

// access returns the servers and credentials for s. Its errors name the setting to change.
func (v *Services) access(s *runtime.Spec) (*access, error) {
	secret, err := s.Token()
	if err != nil {
		return nil, err
	}
	own, err := credentials.OfText(secret)
	if err != nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid,
			"the credentials that transport.token_env or token_file states: %w", err)
	}
	a := &access{own.Access}
	if url := s.Manifest.Transport.URL; url != "" {
		if err := cluster.CheckURL(url); err != nil { // refuses a URL with a password, which further errors would quote
			return nil, protocol.Errorf(protocol.ManifestInvalid, "transport.url: %w", err)
		}
		a.URLs, a.TLS = []string{url}, nil
		return a, nil
	}
	switch {
	case len(v.host.URLs) > 0 && secret != "": // other credentials for the same servers
		servers, err := credentials.Of(&cluster.Membership{URLs: v.host.URLs, TLS: v.host.TLS})
		if err != nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "cluster: %w", err)
		}
		a.URLs, a.TLS = servers.URLs, servers.TLS
	case len(v.host.URLs) > 0:
		servers, err := credentials.Of(&v.host)
		if err != nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "cluster: %w", err)
		}
		a.Access = servers.Access
	case v.host.Join != "":
		return nil, protocol.Errorf(protocol.ConfigInvalid,
			"the hub of the cluster carries no messages of services: state transport.url, a NATS server of your own")
	default:
		return nil, protocol.Errorf(protocol.ConfigInvalid,
			"no NATS server is known: state transport.url, or cluster.urls in the configuration of the host")
	}
	return a, nil
}

// subjectOf returns the subject for requests to a service, and the subject of its notifications. It refuses
// an id or prefix that would contain wildcards, spaces or empty tokens.
func subjectOf(s *runtime.Spec) (requests, events string, err error) {
	base := s.Manifest.Transport.SubjectPrefix + "." + s.ID
	if strings.ContainsAny(base, "*> \t\r\n") || strings.HasPrefix(base, "$") || strings.Contains("."+base+".", "..") {
		return "", "", protocol.Errorf(protocol.ManifestInvalid,
			"transport.subject_prefix and the id make no subject of NATS: %.100q", base)
	}
	return base + ".rpc", base + ".event", nil
}

// failed converts an error of the first connection.
func (a *access) failed(err error) *protocol.Error {
	where := strings.Join(a.URLs, ", ")
	switch {
	case natsclient.IsRefusal(err):
		return a.refused(err)
	case errors.Is(err, nats.ErrTLS), errors.Is(err, nats.ErrSecureConnWanted):
		return protocol.Errorf(protocol.ConfigInvalid,
			"there is no secure connection to NATS at %s: %w; the certificate of transport.url is checked with those "+
				"of the system, the ones of cluster.urls with cluster.tls of the host", where, err)
	}
	return protocol.Errorf(protocol.SpawnFailed,
		"no NATS server answers at %s: %w; check transport.url, or cluster.urls of the host, and that the server runs",
		where, err)
}

// ended converts the error of a connection that the server closed for good.
func (a *access) ended(err error) *protocol.Error {
	if natsclient.IsRefusal(err) {
		return a.refused(err)
	}
	return protocol.Errorf(protocol.ChildExited, "the NATS server at %s has closed the connection: %w",
		strings.Join(a.URLs, ", "), err)
}

// refused is the error of servers that reject the credentials.
func (a *access) refused(err error) *protocol.Error {
	return protocol.Errorf(protocol.ConfigInvalid,
		"%s does not take the credentials of this host: %w; state transport.token_env or token_file, or "+
			"cluster.creds or cluster.nkey of the host", strings.Join(a.URLs, ", "), err)
}

// notPermitted is the error of servers that forbid a subject of the service.
func notPermitted(subject string, err error) *protocol.Error {
	return protocol.Errorf(protocol.ConfigInvalid,
		"the NATS server does not permit it: %w; its user needs to publish to %s and to subscribe to _INBOX.>", err,
		subject)
}

// absent is the error of a request without a subscriber.
func absent(subject string) *protocol.Error {
	return protocol.Errorf(protocol.NotReady,
		"no service takes requests at %s, so this one was not sent; start the service, or correct "+
			"transport.subject_prefix", subject)
}

// foreign is the error of a response with the wrong id.
func foreign(id []byte) error {
	return fmt.Errorf("its id is %.32q, and not that of the request", id)
}
