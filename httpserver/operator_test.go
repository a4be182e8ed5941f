package httpserver

import (
	"net/http"
	"testing"

	"github.com/exthost/exthost"
)

// TestAPINeedsTheOperatorsToken requests every route of the API without the operator's token: with no token, a wrong
// one, a client's, from foreign pages, by foreign names, and by other spellings of the path.
func TestAPINeedsTheOperatorsToken(t *testing.T) {
	h := openKit(t, exthost.Options{})
	addr := serve(t, Options{Backend: h, Admin: Admin(h, nil), OperatorToken: "operators-own", Token: "clients"}, nil)
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	with := func(h http.Header, name, value string) http.Header {
		h = h.Clone()
		h[name] = []string{value}
		return h
	}
	own := bearer("operators-own")
	for name, tt := range map[string]struct {
		header http.Header
		code   int
	}{
		"no token":             {nil, http.StatusUnauthorized},
		"the clients' token":   {bearer("clients"), http.StatusUnauthorized},
		"a part of it":         {bearer("operators-ow"), http.StatusUnauthorized},
		"an empty token":       {bearer(""), http.StatusUnauthorized},
		"another scheme":       {http.Header{"Authorization": {"Basic operators-own"}}, http.StatusUnauthorized},
		"another page":         {with(own, "Origin", "https://evil.example"), http.StatusForbidden},
		"a link on a page":     {with(own, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"a name of an address": {with(own, "Host", "evil.example"), http.StatusForbidden},
	} {
		for _, o := range operations(nil) {
			if resp := send(t, o.method, "http://"+addr+apiRoot+o.path, tt.header, "{}"); resp.StatusCode != tt.code {
				t.Errorf("%s %s with %s: %d", o.method, o.path, name, resp.StatusCode)
			}
		}
	}
	for _, path := range []string{
		"//api/v1/status",
		"/x/../api/v1/status",
		"/api/v1//status",
		"/%61pi/v1/status",
		"/ui/../api/v1/status",
		"/ui/%2e%2e/api/v1/status",
		"/api",
		"/api/",
	} {
		for _, token := range []string{"clients", ""} {
			header := http.Header{}
			if token != "" {
				header = bearer(token)
			}
			if resp := send(t, "GET", "http://"+addr+path, header, ""); resp.StatusCode == http.StatusOK {
				t.Errorf("%s with %q is answered", path, token)
			}
		}
	}
	for path, code := range map[string]int{
		"/api/v1/status": 200,
		"/ui/":           200,
		"/ui/app.js":     200,
		"/ui/none":       404,
		"/api/v1/none":   404,
		"/api/v2/status": 404,
	} {
		if resp := send(t, "GET", "http://"+addr+path, own, ""); resp.StatusCode != code {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, code)
		}
	}
	for path, code := range map[string]int{"/ui/": 200, "/ui": 200, "/mcp": 401, "/metrics": 401, "/ui/../mcp": 401} {
		if resp := send(t, "GET", "http://"+addr+path, nil, ""); resp.StatusCode != code {
			t.Errorf("%s without a token: %d, want %d", path, resp.StatusCode, code)
		}
	}
	if resp := send(t, "POST", "http://"+addr+"/ui/", nil, ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("POST to the pages: %d", resp.StatusCode)
	}
}

// Without the API there is no dashboard. The API needs an operator's token.
func TestAPIOnlyWithToken(t *testing.T) {
	addr := serve(t, Options{Backend: newFake()}, nil)
	for _, path := range []string{"/ui/", "/api/v1/status"} {
		if resp := send(t, "GET", "http://"+addr+path, nil, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an API that anybody can reach is served")
		}
	}()
	New(Options{Backend: newFake(), Admin: http.NotFoundHandler()})
}
