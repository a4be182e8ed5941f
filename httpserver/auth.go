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

	"github.com/exthost/exthost/httpserver/internal/bearertoken"
	"github.com/exthost/exthost/httpserver/internal/caller"
	"github.com/exthost/exthost/httpserver/internal/resourcemeta"
	"github.com/exthost/exthost/internal/secret/accesstoken"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/mcpserver"
)

// OAuth makes the server an OAuth 2.0 resource server: it accepts access tokens of an
// authorization server, and publishes metadata (RFC 9728) from which MCP clients learn
// where to get one.
type OAuth struct {
	Resource string   // URL of this server for clients, such as https://host.example/mcp; required
	Issuer   string   // iss of the authorization server's tokens; required
	Audience string   // aud of tokens for this server; default Resource
	KeysURL  string   // URL of the issuer's JSON Web Key Set; default: jwks_uri of the issuer's metadata
	Scopes   []string // a token must have all of them; empty: none is required

	Client *http.Client // fetches metadata and keys; default: http.DefaultClient; each fetch ends after 10 s
}

// Clients knows the named clients. [exthost.Clients] implements it.
type Clients interface {
	// ByToken returns the client that a token is of. until ends with the token.
	ByToken(token string) (name string, until context.Context, ok bool)
	// Formerly returns the client that an old token was of, which has ended; "" for any other.
	Formerly(token string) (name string)
	// Subject reports whether the subject of an access token may be a caller by that name: no client
	// has it. until ends when one does.
	Subject(name string) (until context.Context, ok bool)
	// Toolset returns the toolset of a client; "" for one that has none of its own.
	Toolset(name string) string
	// Unnamed reports whether callers without a name may be served. until ends when they may not.
	Unnamed() (until context.Context, ok bool)
}

// doorman authenticates requests before they reach next.
type doorman struct {
	token  bearertoken.Sum // nil: there is none
	own    bearertoken.Sum // the operator's token; nil: there is none
	named  Clients         // nil: there are none
	oauth  http.Handler    // requires an access token; nil: none is accepted
	pages  bool            // the dashboard is served
	anyone bool            // without a token, processes of other users are let in too
	log    *slog.Logger
	turned caller.Strangers
	admits func(ctx context.Context)                    // is told of requests that are let in
	refuse func(r *http.Request, client, reason string) // is told of requests whose token is not accepted
	next   http.Handler
}

func (s *Server) newDoorman(next http.Handler) *doorman {
	o := &s.options
	d := &doorman{
		token:  bearertoken.SumOf(o.Token),
		own:    bearertoken.SumOf(o.OperatorToken),
		named:  o.Clients,
		pages:  o.Admin != nil,
		anyone: o.AnyLocalUser,
		log:    o.Logger,
		admits: s.conns.Admit,
		refuse: s.refuseToken,
		next:   next,
	}
	if o.OAuth != nil {
		d.oauth = auth.RequireBearerToken(s.verify, &auth.RequireBearerTokenOptions{
			ResourceMetadataURL: resourcemeta.MetadataURL(o.OAuth.Resource),
			Scopes:              o.OAuth.Scopes,
			ClockSkew:           accesstoken.Skew,
		})(http.HandlerFunc(d.admitSubject))
	}
	return d
}

// ServeHTTP passes a request on or answers that its token is missing or wrong. A
// configured token is required on loopback too, as is that of a client once there has been one;
// without any the user of the process at the other end decides. Public paths require none, see isOpen.
func (d *doorman) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shown := bearertoken.Header(r.Header)
	client, toolset, until, isClient := d.client(shown)
	anonymous, open := d.unnamed(shown)
	switch {
	case shown == "" && d.isOpen(r):
		d.next.ServeHTTP(w, r)
	case bearertoken.Shows(shown, d.own):
		r.Header.Del("Authorization") // the host's own secret goes no further
		if why := caller.Of(r).Child(r.Context()); why != "" {
			Refuse(w, why)
			return
		}
		d.admit(w, r.WithContext(WithOperator(r.Context(), "who has the operator's token")), clienttoken.Operator, nil)
	case bearertoken.Shows(shown, d.token):
		r.Header.Del("Authorization")
		d.admit(w, r, clienttoken.Static, nil)
	case isClient:
		r.Header.Del("Authorization")
		d.admit(w, r.WithContext(mcpserver.WithToolset(r.Context(), toolset)), client, until)
	case d.oauth != nil:
		d.oauth.ServeHTTP(w, r)
	case open:
		if err := caller.Of(r).Stranger(); err != nil && !d.anyone {
			d.turnAway(w, err)
			return
		}
		d.admit(w, r, "", anonymous)
	case clienttoken.Is(bearertoken.Token(shown)):
		d.refuse(r, d.formerly(shown), "the token is of no client of this host, or no longer")
		unauthorized(w, "the token is of no client of this host, or no longer")
	default:
		if shown != "" {
			d.refuse(r, "", "it is not the token of this host")
		}
		unauthorized(w, "a valid token is required: Authorization: Bearer …")
	}
}

// client returns the client whose token the header has. until ends with the token.
func (d *doorman) client(header string) (name, toolset string, until context.Context, ok bool) {
	if token := bearertoken.Token(header); d.named != nil && token != "" {
		if name, until, ok = d.named.ByToken(token); ok {
			toolset = d.named.Toolset(name)
			_, _, ok = d.named.ByToken(token) // one that was removed meanwhile has no toolset
		}
	}
	return name, toolset, until, ok
}

// formerly returns the client whose old token the header has, which has ended; "" if it is none.
func (d *doorman) formerly(header string) string {
	if d.named == nil {
		return ""
	}
	return d.named.Formerly(bearertoken.Token(header))
}

// unnamed reports whether a request needs no token: none is configured, and there has been no client.
// A token that looks like one of a client is not ignored: it was one, and is no longer.
func (d *doorman) unnamed(header string) (until context.Context, ok bool) {
	if d.token != nil || clienttoken.Is(bearertoken.Token(header)) {
		return nil, false
	}
	if d.named == nil {
		return nil, true
	}
	return d.named.Unnamed()
}

// turnAway answers a process of this machine that may be another user's.
func (d *doorman) turnAway(w http.ResponseWriter, why error) {
	if d.turned.IsNew(why.Error()) {
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

// operatorOnly requires the operator's token: a caller of tools must not be able to
// approve calls.
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

// admit passes a request on. It, its streams and the session that it may open end with until; nil:
// they have no such end.
func (d *doorman) admit(w http.ResponseWriter, r *http.Request, caller string, until context.Context) {
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

// admitSubject passes the request of the subject of an access token on. Its streams end with the token.
func (d *doorman) admitSubject(w http.ResponseWriter, r *http.Request) {
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

// isOpen reports whether a request needs no token: a health probe, whose answer reveals
// nothing; the dashboard's static pages; the metadata that says where to get a token.
func (d *doorman) isOpen(r *http.Request) bool {
	path := r.URL.Path
	return path == "/healthz" ||
		d.pages && r.Method == http.MethodGet && (path == "/ui" || strings.HasPrefix(path, "/ui/")) ||
		d.oauth != nil && resourcemeta.Covers(path)
}

// verify verifies an access token. The reason of a refusal is logged and counted, not answered.
func (s *Server) verify(ctx context.Context, token string, r *http.Request) (*auth.TokenInfo, error) {
	claims, err := s.tokens.Verify(ctx, token, time.Now())
	switch {
	case err == nil && (claims.Subject == "" || clienttoken.Reserved(claims.Subject)):
		err = errors.New("its subject is nobody, or the host gives the name to callers without such a token")
	case errors.Is(err, accesstoken.ErrKeys):
		if s.keysLog.Allow() { // anybody can send what looks like a token
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
