package packages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	dir := t.TempDir()
	bundle := filepath.Join(dir, "notes.mcpb")
	if err := os.WriteFile(bundle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]struct {
		s  Source
		id string
	}{
		"npm:left":                               {Source{NPM, "left", ""}, "left"},
		"npm:@acme/mcp-weather@^1":               {Source{NPM, "@acme/mcp-weather", "^1"}, "weather"},
		"npm:@acme/server-memory@>=1 <2":         {Source{NPM, "@acme/server-memory", ">=1 <2"}, "memory"},
		"pypi:mcp-server-time":                   {Source{PyPI, "mcp-server-time", ""}, "time"},
		"pypi:mcp_server_time==2.1":              {Source{PyPI, "mcp_server_time", "2.1"}, "mcp_server_time"},
		"registry:io.github.acme/weather":        {Source{Registry, "io.github.acme/weather", ""}, "weather"},
		"git+https://h.example/a/b-mcp.git@v1.0": {Source{Git, "https://h.example/a/b-mcp.git", "v1.0"}, "b"},
		bundle:                                   {Source{Bundle, bundle, ""}, "notes"},
		dir:                                      {Source{Folder, dir, ""}, ""},
	} {
		s, err := Parse(text)
		if err != nil || s != want.s || s.String() != filepath.ToSlash(text) || want.id != "" && s.ID() != want.id {
			t.Errorf("%s: %+v, %v, id %s", text, s, err, s.ID())
		}
	}
	for text, want := range map[string]string{
		"":                                        "no source",
		"left":                                    "no source",
		"https://h.example/x.tgz":                 "no source",
		"npm:":                                    "no package",
		"npm:--registry=http:x":                   "no package",
		"npm:../x":                                "no package",
		"npm:left@https://evil/left.tgz":          "no version",
		"npm:left@file:../left":                   "no version",
		"npm:@acme/left@npm:right":                "no version",
		"pypi:--index-url=http":                   "no package",
		"pypi:x @ file:///x":                      "no package",
		"pypi:x==1;python_version>'3'":            "no package",
		"registry:weather":                        "no server",
		"registry:../../x":                        "no server",
		"git+https://h.example/a/b":               "no commit",
		"git+ext::sh -c evil@1":                   "no address",
		"git+ext://sh/x@1":                        "https alone",
		"git+file:///etc@1":                       "no address",
		"git+ssh://git@h.example/a@1":             "https alone",
		"git+https://user:pw@h.example/a@1":       "a user or a password",
		"git+https://-oProxyCommand=x/a@1":        "no address",
		"git+https://h.example/a@--upload-pack=x": "no commit",
		"git+https://h.example/a@-x":              "no commit",
		"git+https://h.example/a@a..b":            "no commit",
		"git+https://h.example/a?x=1@b":           "no address",
		"--upload-pack=x":                         "no source",
	} {
		if s, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, s, err, want)
		}
	}
}
