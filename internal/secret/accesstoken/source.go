package accesstoken

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/go-jose/go-jose/v4/json"
)

// maxRedirects limits the redirects per fetch.
const maxRedirects = 3

// get fetches and decodes a JSON document. It requires https or a loopback address, because an attacker that
// answers for the issuer could make every token valid. go-jose's decoder matches member names exactly and refuses
// duplicates.
func (v *Verifier) get(ctx context.Context, at string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	if !protected(r.URL) {
		return fmt.Errorf("%s is not an https address, so others on the way could publish their own keys", at)
	}
	client := *cmp.Or(v.Client, http.DefaultClient)
	client.CheckRedirect = follow
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", at, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return err
	}
	if len(data) > maxDocument {
		return fmt.Errorf("%s is longer than %d bytes", at, maxDocument)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// protected reports whether nobody between this process and the server can forge its responses.
func protected(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && local
}

// follow allows redirects within one host. Otherwise an open redirect at the issuer would let anybody supply the
// keys.
func follow(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return errors.New("it redirects too often")
	case r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme:
		return fmt.Errorf("it redirects to %s://%s, and the issuer's keys are fetched from the configured host "+
			"alone: state the final address as server.auth.oauth.jwks_url", r.URL.Scheme, r.URL.Host)
	}
	return nil
}
