package httpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/exthost/exthost/internal/accesstoken"
	"github.com/exthost/exthost/mcpserver"
)

// OAuth has the server accept access tokens of an authorization server, as an OAuth
// 2.0 resource server (RFC 9728) does that MCP clients can find their way from.
type OAuth struct {
	Resource string   // the URL that clients know this server by, such as https://host.example/mcp; required
	Issuer   string   // the authorization server's, which its tokens name as iss; required
	Audience string   // what tokens for this server name as aud; default Resource
	KeysURL  string   // where its keys are (a JSON Web Key Set); default: what its metadata says
	Scopes   []string // all of which a token must have; empty: any will do

	Client *http.Client // fetches metadata and keys; default: one that gives up after 10 s
}

// Who calls, by the token that was shown.
const (
	tokenCaller    = "token"
	operatorCaller = "operator"
)

// doorman asks who comes in, and lets in who may.
type doorman struct {
	token   *[sha256.Size]byte // nil: there is none
	own     *[sha256.Size]byte // the operator's; nil: there is none
	oauth   http.Handler       // asks for an access token, and goes on to the routes; nil: none is accepted
	pages   bool               // there is a dashboard
	private bool               // everybody must say who he is
	next    http.Handler
}

func (s *Server) newDoorman(private bool, next http.Handler) *doorman {
	o := &s.options
	d := &doorman{token: sumOf(o.Token), own: sumOf(o.OperatorToken), pages: o.Admin != nil, private: private, next: next}
	if o.OAuth != nil {
		verify := func(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
			return s.verify(ctx, token)
		}
		d.oauth = auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{
			ResourceMetadataURL: metadataURL(o.OAuth.Resource), Scopes: o.OAuth.Scopes, ClockSkew: accesstoken.Skew,
		})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d.admit(w, r, auth.TokenInfoFromContext(r.Context()).UserID)
		}))
	}
	return d
}

func sumOf(token string) *[sha256.Size]byte {
	if token == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	return &sum
}

// ServeHTTP lets a request in or says what it lacks. A token that is set must be
// shown by everybody, also on loopback, where other users of the machine are
// callers, and private ports take one in any case; what tells nobody anything takes
// none.
func (d *doorman) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shown := r.Header.Get("Authorization")
	switch {
	case shown == "" && d.isOpen(r):
		d.admit(w, r, "")
	case shows(shown, d.own):
		d.admit(w, r.WithContext(WithOperator(r.Context(), "who has the operator's token")), operatorCaller)
	case shows(shown, d.token):
		d.admit(w, r, tokenCaller)
	case d.oauth != nil:
		d.oauth.ServeHTTP(w, r)
	case d.token == nil && !d.private:
		d.admit(w, r, "")
	default:
		unauthorized(w, "a valid token is required: Authorization: Bearer …")
	}
}

func unauthorized(w http.ResponseWriter, text string) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, text, http.StatusUnauthorized)
}

// operatorOnly lets through who has shown the operator's token, whatever path led
// here: whoever may call tools is not thereby who approves of calls.
func operatorOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, is := r.Context().Value(operatorKey{}).(string); !is {
			unauthorized(w, "the operator's token is required, which exthost serve makes when it starts: Authorization: Bearer …")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (d *doorman) admit(w http.ResponseWriter, r *http.Request, caller string) {
	if caller != "" {
		r = r.WithContext(mcpserver.WithCaller(r.Context(), caller))
	}
	d.next.ServeHTTP(w, r)
}

// isOpen reports whether a request is for those who have no token: probes, which learn
// nothing, browsers that load the dashboard's pages, which are the same for everybody,
// and clients that want to know where to get one.
func (d *doorman) isOpen(r *http.Request) bool {
	path := r.URL.Path
	return path == "/healthz" || d.pages && r.Method == http.MethodGet && (path == "/ui" || strings.HasPrefix(path, "/ui/")) || d.oauth != nil && (path == metadataPath || strings.HasPrefix(path, metadataPath+"/"))
}

// shows reports whether the header shows the token, in a time that does not depend
// on how much of it is right.
func shows(header string, token *[sha256.Size]byte) bool {
	if token == nil {
		return false
	}
	scheme, shown, _ := strings.Cut(header, " ")
	sum := sha256.Sum256([]byte(strings.TrimLeft(shown, " "))) // of one length, whatever was sent
	return subtle.ConstantTimeCompare(sum[:], token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// verify takes an access token. What is wrong with one is for the log.
func (s *Server) verify(ctx context.Context, token string) (*auth.TokenInfo, error) {
	claims, err := s.tokens.Verify(ctx, token, time.Now())
	switch {
	case err == nil && (claims.Subject == "" || claims.Subject == tokenCaller || claims.Subject == operatorCaller):
		err = errors.New("its subject names nobody")
	case errors.Is(err, accesstoken.ErrKeys):
		s.options.Logger.Error("access tokens cannot be verified", "error", err)
		return nil, errors.New("access tokens cannot be verified at the moment")
	}
	if err != nil {
		s.options.Logger.Debug("an access token was refused", "reason", err)
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: claims.Subject, Scopes: claims.Scopes, Expiration: claims.Expires}, nil
}

func (s *Server) newTokens() *accesstoken.Verifier {
	o := s.options.OAuth
	if o == nil {
		return nil
	}
	v := &accesstoken.Verifier{Issuer: o.Issuer, Audience: o.Audience, KeysURL: o.KeysURL, Client: o.Client}
	if v.Audience == "" {
		v.Audience = o.Resource
	}
	return v
}

// metadataPath is where RFC 9728 has clients look for a resource's metadata, before
// the path of the resource.
const metadataPath = "/.well-known/oauth-protected-resource"

func metadataURL(resource string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	u.Path = metadataPath + strings.TrimSuffix(u.Path, "/")
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}

// metadata tells clients where to get a token.
func (s *Server) metadata() http.Handler {
	o := s.options.OAuth
	return auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: o.Resource, AuthorizationServers: []string{o.Issuer}, ScopesSupported: o.Scopes,
		BearerMethodsSupported: []string{"header"}, ResourceName: s.options.MCP.Name,
	})
}
