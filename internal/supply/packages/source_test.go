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
	longest := strings.Repeat("1", 200)
	for text, want := range map[string]struct {
		s  Source
		id string
	}{
		"npm:left":                               {Source{Kind: NPM, Name: "left"}, "left"},
		"npm:left@" + longest:                    {Source{Kind: NPM, Name: "left", Version: longest}, "left"},
		"npm:@acme/mcp-weather@^1":               {Source{Kind: NPM, Name: "@acme/mcp-weather", Version: "^1"}, "weather"},
		"npm:@acme/server-memory@>=1 <2":         {Source{Kind: NPM, Name: "@acme/server-memory", Version: ">=1 <2"}, "memory"},
		"pypi:mcp-server-time":                   {Source{Kind: PyPI, Name: "mcp-server-time"}, "time"},
		"pypi:mcp_server_time==2.1":              {Source{Kind: PyPI, Name: "mcp_server_time", Version: "2.1"}, "mcp_server_time"},
		"registry:io.github.acme/weather":        {Source{Kind: Registry, Name: "io.github.acme/weather"}, "weather"},
		"git+https://h.example/a/b-mcp.git@v1.0": {Source{Kind: Git, Name: "https://h.example/a/b-mcp.git", Version: "v1.0"}, "b"},
		"npm:@playwright/mcp":                    {Source{Kind: NPM, Name: "@playwright/mcp"}, "playwright"},
		"npm:@azure/mcp":                         {Source{Kind: NPM, Name: "@azure/mcp"}, "azure"},
		"registry:io.github.stripe/mcp":          {Source{Kind: Registry, Name: "io.github.stripe/mcp"}, "stripe"},
		"git+https://h.example/acme/mcp.git@v1":  {Source{Kind: Git, Name: "https://h.example/acme/mcp.git", Version: "v1"}, "acme"},
		"npm:mcp":                                {Source{Kind: NPM, Name: "mcp"}, "mcp"},
		bundle:                                   {Source{Kind: Bundle, Name: bundle}, "notes"},
		dir:                                      {Source{Kind: Folder, Name: dir}, ""},
	} {
		s, err := Parse(text)
		if err != nil || s != want.s || s.String() != filepath.ToSlash(text) || want.id != "" && s.ID() != want.id {
			t.Errorf("%s: %+v, %v, id %s", text, s, err, s.ID())
		}
	}
	for text, want := range map[string]string{
		"":                               "no source",
		"left":                           "no source",
		"https://h.example/x.tgz":        "no source",
		"npm:":                           "no package",
		"npm:--registry=http:x":          "no package",
		"npm:../x":                       "no package",
		"npm:left@https://evil/left.tgz": "no version",
		"npm:left@file:../left":          "no version",
		"npm:left@1" + longest:           "no version",
		"pypi:left==1" + longest:         "no package",
		"registry:io.github.acme/left@1" + longest: "no server",
		"git+https://h.example/a/b@1" + longest:    "no commit",
		"npm:@acme/left@npm:right":                 "no version",
		"pypi:--index-url=http":                    "no package",
		"pypi:x @ file:///x":                       "no package",
		"pypi:x==1;python_version>'3'":             "no package",
		"registry:weather":                         "no server",
		"registry:../../x":                         "no server",
		"git+https://h.example/a/b":                "no commit",
		"git+ext::sh -c evil@1":                    "no address",
		"git+ext://sh/x@1":                         "https alone",
		"git+file:///etc@1":                        "no address",
		"git+ssh://git@h.example/a@1":              "https alone",
		"git+https://user:pw@h.example/a@1":        "a user or a password",
		"git+https://-oProxyCommand=x/a@1":         "no address",
		"git+https://h.example/a@--upload-pack=x":  "no commit",
		"git+https://h.example/a@-x":               "no commit",
		"git+https://h.example/a@a..b":             "no commit",
		"git+https://h.example/a?x=1@b":            "no address",
		"--upload-pack=x":                          "no source",
	} {
		if s, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, s, err, want)
		}
	}
}
