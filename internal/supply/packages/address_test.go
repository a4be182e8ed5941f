package packages

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestTokenInPath: a token in the path of a registry is in no lock file and no error, and another user can fetch the
// package with another token.
func TestTokenInPath(t *testing.T) {
	const token, others = "/t0ken-of-ada-0123456789", "/t0ken-of-bob-9876543210"
	t.Run("npm", func(t *testing.T) {
		l := newLab(t, weather("1.0.0"), left("1.0.0"))
		private := func(token string) {
			l.NPM.Move(token)
			l.setenv("npm_config_registry", l.URL+token+"/")
		}
		private(token)
		l.check(t, "npm:@acme/mcp-weather", token, func() { private(others) })
	})
	t.Run("pypi", func(t *testing.T) {
		l := newPyLab(t, pyWeather("1.0"), right("1.0"))
		private := func(token string) {
			l.PyPI.Move(token)
			l.setenv("PIP_INDEX_URL", l.URL+token+"/simple")
		}
		private(token)
		l.check(t, "pypi:mcp-weather", token, func() { private(others) })
	})
}

// check adds a package of a registry with token in its path. It fetches the package again after change, which puts
// another token into the path.
func (b *workbench) check(t *testing.T, source, token string, change func()) {
	t.Helper()
	token = strings.Trim(token, "/")
	p, err := b.add(t, source)
	if err != nil {
		t.Fatal(err)
	}
	e := locked(p)
	if text := fmt.Sprintf("%+v", e); strings.Contains(text, token) || strings.Count(text, registryScheme) != 2 {
		t.Errorf("the lock file has it: %s", text)
	}
	for _, missing := range []string{"-of-nobody", "-of-others"} {
		if _, err := b.add(t, source+missing); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("of a package that is not there: %v", err)
		}
	}
	if _, err := b.Store.Remove(p.Tree); err != nil {
		t.Fatal(err)
	}
	gone := e
	gone.Parts = append(gone.Parts[:0:0], gone.Parts...)
	gone.Parts[0].URL = registryScheme + "gone" + filepath.Ext(gone.Parts[0].URL)
	if _, err := b.Fetch(t.Context(), gone); err == nil || strings.Contains(err.Error(), token) ||
		!strings.Contains(err.Error(), "404") {
		t.Errorf("of an archive that is gone: %v", err)
	}
	change()
	if _, err := b.Fetch(t.Context(), e); err != nil {
		t.Errorf("with a token of another: %v", err)
	}
}

// TestLockedURL: a URL that may contain a secret and is not below the registry's URL is refused.
func TestLockedURL(t *testing.T) {
	for _, tt := range []struct{ registry, archive, want string }{
		{"https://r.example/", "https://r.example/a/-/a.tgz", "https://r.example/a/-/a.tgz"},
		{"https://r.example", "https://u:p@r.example/a/-/a.tgz#x", "https://r.example/a/-/a.tgz"},
		{"https://r.example/t0ken/", "https://r.example/t0ken/@s%2fa/-/a.tgz", "registry://@s%2fa/-/a.tgz"},
		{"https://r.example/t0ken/simple", "https://r.example/t0ken/files/a.whl", "registry://../files/a.whl"},
		{"https://r.example/simple", "https://files.example/a.whl", "https://files.example/a.whl"},
		{"https://r.example/t0ken-0123456789/", "https://r.example:8443/t0ken-0123456789/a.tgz", ""},
		{"https://r.example/t0ken-0123456789/", "https://files.example/a.tgz?sig=x", ""},
	} {
		got, err := lockedURL(tt.registry, tt.archive)
		if got != tt.want || (err == nil) != (tt.want != "") || err != nil && strings.Contains(err.Error(), "t0ken-") {
			t.Errorf("%s at %s: %q, %v; want %q", tt.archive, tt.registry, got, err, tt.want)
			continue
		}
		if tt.want == "" {
			continue
		}
		u := strings.NewReplacer("u:p@", "", "#x", "").Replace(tt.archive)
		if back, err := (origin{registryOf: func(string) string { return tt.registry }}).address("a", got); back != u ||
			err != nil {
			t.Errorf("%s is fetched from %s, %v", got, back, err)
		}
	}
}
