package httpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/secret/accesstoken"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/mcpserver"
)

// Clients are the named clients of a host. [exthost.Clients] implements it.
type Clients interface {
	// ByToken returns the client with this token. until ends when the token becomes invalid.
	ByToken(token string) (name string, until context.Context, ok bool)
	// Formerly returns the client whose token this was until the token became invalid, or "".
	Formerly(token string) (name string)
	// Subject reports whether the holder of an access token with the subject name may be the caller of that name:
	// no client has the name. until ends when a client gets it.
	Subject(name string) (until context.Context, ok bool)
	// Toolset returns the toolset of a client, or "" if it has none of its own.
	Toolset(name string) string
	// Scope returns "metrics" for a client that may read /metrics and nothing else, "" for others.
	Scope(name string) string
	// Unnamed reports whether callers without a name are served. until ends when they no longer are.
	Unnamed() (until context.Context, ok bool)
}

// authenticator authenticates requests before they reach next.
type authenticator struct {
	token  *tokenHash   // nil if there is none
	own    *tokenHash   // the operator's token; nil if there is none
	named  Clients      // nil if there are none
	oauth  http.Handler // requires an access token; nil if none is accepted
	pages  bool         // serve the dashboard
	anyone bool         // without a token, also admit processes of other users
	log    *slog.Logger
	logged loggedReasons
	admits func(ctx context.Context)                    // called for each admitted request
	refuse func(r *http.Request, client, reason string) // called for each request with a rejected token
	next   http.Handler
}

func (s *Server) newAuthenticator(next http.Handler) *authenticator {
	o := &s.options
	d := &authenticator{
		token:  hashToken(o.Token),
		own:    hashToken(o.OperatorToken),
		named:  o.Clients,
		pages:  o.Admin != nil,
		anyone: o.AnyLocalUser,
		log:    o.Logger,
		admits: s.conns.admit,
		refuse: s.refuseToken,
		next:   next,
	}
	if o.OAuth != nil {
		d.oauth = auth.RequireBearerToken(s.verify, &auth.RequireBearerTokenOptions{
			ResourceMetadataURL: metadataURL(o.OAuth.Resource),
			Scopes:              o.OAuth.Scopes,
			ClockSkew:           accesstoken.Skew,
		})(http.HandlerFunc(d.admitSubject))
	}
	return d
}

// ServeHTTP authenticates a request and passes it on or refuses it. A token is required, on loopback too, if one is
// configured, if access tokens are accepted, or once there has been a client. Otherwise only processes of this user
// and root are admitted; with anyone, all. Public paths need no token, see isOpen.
func (d *authenticator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shown := authorizationOf(r.Header)
	client, until, isClient := d.client(shown)
	anonymous, open := d.unnamed(shown)
	free := d.free(r, shown, open)
	switch {
	case free != nil:
		d.next.ServeHTTP(w, free)
	case d.own.isIn(shown):
		r.Header.Del("Authorization") // the host's own secret must not reach policies or extensions
		if why := processOf(r).child(r.Context()); why != "" {
			Refuse(w, why)
			return
		}
		d.admit(w, r.WithContext(WithOperator(r.Context(), "who has the operator's token")), clienttoken.Operator, nil)
	case d.token.isIn(shown):
		r.Header.Del("Authorization")
		d.admit(w, r, clienttoken.Static, nil)
	case isClient:
		r.Header.Del("Authorization")
		d.admitClient(w, r, client, until)
	case d.oauth != nil:
		d.oauth.ServeHTTP(w, r)
	case open:
		if err := d.neighbour(r); err != nil {
			d.turnAway(w, err)
			return
		}
		d.admit(w, r, "", anonymous)
	case clienttoken.Is(bearerToken(shown)):
		d.refuse(r, d.formerly(shown), "the token is of no client of this host, or no longer")
		unauthorized(w, "the token is of no client of this host, or no longer")
	default:
		if shown != "" {
			d.refuse(r, "", "it is not the token of this host")
		}
		unauthorized(w, "a valid token is required: Authorization: Bearer …")
	}
}

// namedClient is what a client's token opens.
type namedClient struct{ name, toolset, scope string }

// client returns the client whose token is in the header. until ends when the token becomes invalid.
func (d *authenticator) client(header string) (c namedClient, until context.Context, ok bool) {
	if token := bearerToken(header); d.named != nil && token != "" {
		if c.name, until, ok = d.named.ByToken(token); ok {
			c.toolset, c.scope = d.named.Toolset(c.name), d.named.Scope(c.name)
			_, _, ok = d.named.ByToken(token) // a client removed meanwhile has neither, and would see everything
		}
	}
	return c, until, ok
}

// scopedKey is the context key of requests of clients that have a scope. Its value is true.
type scopedKey struct{}

// admitClient passes on a request of a client, unless the client has a scope that the request is not in.
func (d *authenticator) admitClient(w http.ResponseWriter, r *http.Request, c namedClient, until context.Context) {
	switch {
	case c.scope == "":
		d.admit(w, r.WithContext(mcpserver.WithToolset(r.Context(), c.toolset)), c.name, until)
	case c.scope == config.ScopeMetrics && (r.URL.Path == metricsPath || r.URL.Path == readyPath):
		d.admit(w, r.WithContext(context.WithValue(r.Context(), scopedKey{}, true)), c.name, until)
	default:
		http.Error(w, "client "+c.name+" has the scope "+c.scope+": its token opens "+metricsPath+" alone",
			http.StatusForbidden)
	}
}

// free returns the request that is passed on although it shows no credentials, nil if it needs some: of a public path,
// or of readyPath, which then answers with the status alone. open is the result of unnamed.
func (d *authenticator) free(r *http.Request, shown string, open bool) *http.Request {
	switch {
	case shown != "":
		return nil
	case d.isOpen(r):
		return r
	case r.URL.Path != readyPath || open && d.oauth == nil && d.neighbour(r) == nil:
		return nil
	}
	return r.WithContext(context.WithValue(r.Context(), strangerKey{}, true))
}

// neighbour returns why a request without a token is not from a process that needs none; nil if it is.
func (d *authenticator) neighbour(r *http.Request) error {
	if d.anyone {
		return nil
	}
	return processOf(r).stranger()
}

// formerly returns the client whose former token is in the header, or "".
func (d *authenticator) formerly(header string) string {
	if d.named == nil {
		return ""
	}
	return d.named.Formerly(bearerToken(header))
}

// unnamed reports whether a request needs no token: none is configured, and there has never been a client. A request
// with a token that looks like a client's is no such request, because that token may have been valid once.
func (d *authenticator) unnamed(header string) (until context.Context, ok bool) {
	if d.token != nil || clienttoken.Is(bearerToken(header)) {
		return nil, false
	}
	if d.named == nil {
		return nil, true
	}
	return d.named.Unnamed()
}

// turnAway refuses a process of this machine that may belong to another user.
func (d *authenticator) turnAway(w http.ResponseWriter, why error) {
	if d.logged.isNew(why.Error()) {
		d.log.Warn("a process of this machine was kept from the server, which has no token", "why", why)
	}
	http.Error(w, fmt.Sprintf("without a token this server answers the processes of its own user (uid %d) and of "+
		"root alone, and this process is not known as one: %v.\n"+
		"To let others in, set server.auth.token_file or server.auth.token_env for the server and send "+
		"Authorization: Bearer …; or set server.auth.loopback to any.", os.Geteuid(), why), http.StatusForbidden)
}

func unauthorized(w http.ResponseWriter, text string) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, text, http.StatusUnauthorized)
}

// operatorOnly requires the operator's token: a caller of tools must not be able to approve calls.
func operatorOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, is := r.Context().Value(operatorKey{}).(string); !is {
			unauthorized(w, "the operator's token is required, which exthost serve makes when it starts: "+
				"Authorization: Bearer …")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit passes a request on. The request, its streams and a session that it opens end with until, unless that is nil.
func (d *authenticator) admit(w http.ResponseWriter, r *http.Request, caller string, until context.Context) {
	ctx := r.Context()
	d.admits(ctx)
	if caller != "" {
		ctx = mcpserver.WithCaller(ctx, caller)
	}
	if until != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(mcpserver.WithUntil(ctx, until))
		defer cancel()
		defer context.AfterFunc(until, cancel)()
	}
	d.next.ServeHTTP(w, r.WithContext(ctx))
}

// admitSubject passes on the request of an access token's subject. Its streams end when the token expires.
func (d *authenticator) admitSubject(w http.ResponseWriter, r *http.Request) {
	token := auth.TokenInfoFromContext(r.Context())
	name := token.UserID
	r = r.WithContext(mcpserver.WithExpiry(r.Context(), token.Expiration.Add(accesstoken.Skew)))
	if d.named == nil {
		d.admit(w, r, name, nil)
	} else if until, ok := d.named.Subject(name); ok {
		d.admit(w, r, name, until)
	} else {
		unauthorized(w, "the subject of the access token has the name of a client, which has a token of its own: use "+
			"that, or give the client another name")
	}
}

// Paths that are judged before they are routed.
const (
	metricsPath = "/metrics"
	readyPath   = "/readyz"
)

// strangerKey is the context key of requests to readyPath that no token or process lets in. Its value is true.
type strangerKey struct{}

// isOpen reports whether a path needs no token: health probes, which reveal nothing; the dashboard's static pages;
// the metadata about where to get a token.
func (d *authenticator) isOpen(r *http.Request) bool {
	path := r.URL.Path
	return path == "/healthz" ||
		d.pages && r.Method == http.MethodGet && (path == "/ui" || strings.HasPrefix(path, "/ui/")) ||
		d.oauth != nil && isMetadataPath(path)
}

// verify verifies an access token. The reason of a refusal is logged and counted, but not sent to the client.
func (s *Server) verify(ctx context.Context, token string, r *http.Request) (*auth.TokenInfo, error) {
	claims, err := s.tokens.Verify(ctx, token, time.Now())
	switch {
	case err == nil && (claims.Subject == "" || clienttoken.Reserved(claims.Subject)):
		err = errors.New("its subject is nobody, or the host gives the name to callers without such a token")
	case errors.Is(err, accesstoken.ErrKeys):
		if s.keysLog.Allow() { // anybody can send something that looks like a token
			s.options.Logger.Error("access tokens cannot be verified", "error", err)
		}
		return nil, errors.New("access tokens cannot be verified at the moment")
	}
	if err != nil {
		s.refuseToken(r, "", "the access token is refused: "+err.Error())
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: claims.Subject, Scopes: claims.Scopes, Expiration: claims.Expires}, nil
}

func (s *Server) newTokens() *accesstoken.Verifier {
	o := s.options.OAuth
	if o == nil {
		return nil
	}
	return &accesstoken.Verifier{
		Issuer:   o.Issuer,
		Audience: cmp.Or(o.Audience, o.Resource),
		KeysURL:  o.KeysURL,
		Client:   o.Client,
	}
}
