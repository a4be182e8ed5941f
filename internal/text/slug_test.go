package text

import "testing"

func TestSlug(t *testing.T) {
	for name, want := range map[string]string{
		"Deploy Kit": "deploy-kit", "my_server-2": "my_server-2", "-Ünits.": "nits", "3d": "mcp-3d", "日本": "mcp", "": "mcp",
	} {
		if got := Slug(name, "mcp"); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
