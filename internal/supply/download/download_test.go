package download_test

import (
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/supply/download"
)

func TestGet(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/file":
			_, _ = w.Write([]byte("text"))
		case "/long":
			_, _ = w.Write(make([]byte, 11))
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "https://127.0.0.1:1/file", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	c, err := download.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if data, err := c.Get(t.Context(), s.URL+"/file", "", 10); err != nil || string(data) != "text" {
		t.Errorf("%q, %v", data, err)
	}
	for address, want := range map[string]string{
		s.URL + "/long":               "over 0 MiB",
		s.URL + "/none":               "404",
		s.URL + "/loop":               "redirects",
		s.URL + "/away":               "private address",
		"http://h.example/file":       "not reached over https",
		"ftp://h.example/file":        "not reached over https",
		"https://[::1]/file":          "private address",
		"https://[::ffff:10.0.0.1]/x": "private address",
		"https://100.64.0.1/file":     "private address",
		"https://localhost/file":      "host of this network",
		"https://metadata/file":       "host of this network",
		"https://localtest.invalid/x": "",
		"://":                         "no address",
		strings.Replace(s.URL, "http", "https", 1) + "/file": "private address",
	} {
		if data, err := c.Get(t.Context(), address, "", 10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", address, data, err, want)
		}
	}
	for _, registry := range []string{"http://h.example/", "ftp://127.0.0.1/", "registry", ""} {
		if _, err := download.New(registry); err == nil {
			t.Errorf("the registry %q was taken", registry)
		}
	}
}

// TestCredentials: credentials are sent only below their URL, over https or on this machine, and not after a
// redirect to another host or port.
func TestCredentials(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Header.Get("Authorization"))) }
	other := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(other.Close)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path.Base(r.URL.Path) {
		case "other":
			http.Redirect(w, r, other.URL+"/npm/x", http.StatusFound)
		case "back":
			http.Redirect(w, r, "/npm/x", http.StatusFound)
		case "up":
			http.Redirect(w, r, "/x", http.StatusFound)
		default:
			echo(w, r)
		}
	}))
	t.Cleanup(s.Close)
	c, err := download.New(s.URL+"/npm/", other.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	at := func(address string) string { return strings.TrimPrefix(address, "http:") }
	c.Credentials = map[string]string{
		at(s.URL) + "/npm/":     "Bearer npm",
		at(s.URL) + "/npm/deep": "Bearer deep",
		at(other.URL):           "Bearer other",
	}
	for address, want := range map[string]string{
		s.URL + "/npm/x":          "Bearer npm",
		s.URL + "/npm/@a%2fb":     "Bearer npm",
		s.URL + "/npm/deep/x":     "Bearer deep",
		s.URL + "/npm/deeper":     "Bearer npm",
		s.URL + "/npm":            "",
		s.URL + "/npmx/y":         "",
		s.URL + "/x":              "",
		s.URL + "/npm/../x":       "",
		s.URL + "/npm/%2e%2e%2fx": "",
		s.URL + "/npm/a/..":       "",
		s.URL + "/npm/other":      "",
		s.URL + "/npm/back":       "Bearer npm",
		s.URL + "/back":           "Bearer npm",
		s.URL + "/npm/up":         "",
		other.URL + "/x":          "Bearer other",
		s.URL + "/":               "",
	} {
		if data, err := c.Get(t.Context(), address, "", 100); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v; want %q", address, data, err, want)
		}
	}
}

// TestNoErrorTellsWhoAsks: a URL's user may be a token without a password. No error contains it.
func TestNoErrorTellsWhoAsks(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		switch {
		case user != "t0ken":
			t.Errorf("%s is asked by %q", r.URL, user)
		case r.URL.Path == "/long":
			_, _ = w.Write(make([]byte, 11))
		case r.URL.Path == "/away":
			http.Redirect(w, r, "ftp://t0ken@h.example/", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	at := strings.Replace(s.URL, "//", "//t0ken@", 1)
	c, err := download.New(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, address := range []string{
		s.URL + "/none",
		at + "/none",
		s.URL + "/long",
		s.URL + "/away",
		"http://t0ken@h.example/",
		"https://t0ken@intern/",
		"https://t0ken@10.0.0.1/",
	} {
		if _, err := c.Get(t.Context(), address, "", 10); err == nil || strings.Contains(err.Error(), "t0ken") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := download.New("http://t0ken@h.example/"); err == nil || strings.Contains(err.Error(), "t0ken") {
		t.Error(err)
	}
}

func TestVerify(t *testing.T) {
	data := []byte("text")
	good := download.Sum(data)
	if err := download.Verify(data, good); err != nil {
		t.Error(err)
	}
	for _, integrity := range []string{"", "sha1-eA==", "sha256-", download.Sum(nil), "sha512-" + good[7:]} {
		if err := download.Verify(data, integrity); err == nil {
			t.Errorf("%q was taken", integrity)
		}
	}
	if s, err := download.Strongest("sha1-x sha256-y sha512-z?opt"); err != nil || s != "sha512-z" {
		t.Errorf("%s, %v", s, err)
	}
	if _, err := download.Strongest("sha1-x md5-y"); err == nil {
		t.Error("SHA-1 counts")
	}
}
