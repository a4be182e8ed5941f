package download_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/download"
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
