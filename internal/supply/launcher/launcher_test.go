package launcher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	args := func(line string) []string { return strings.Fields(line) }
	for line, want := range map[string]Command{
		"npx -y @modelcontextprotocol/server-memory": {
			Source:   "npm:@modelcontextprotocol/server-memory",
			Unpinned: "@modelcontextprotocol/server-memory",
		},
		"npx -y @modelcontextprotocol/server-memory@^1.2 a b": {
			Source: "npm:@modelcontextprotocol/server-memory@^1.2",
			Args:   args("a b"),
		},
		"npx server@latest --flag": {
			Source:   "npm:server",
			Unpinned: "server@latest",
			Args:     args("--flag"),
		},
		"npx server@next": {Source: "npm:server@next", Unpinned: "server@next"},
		"/usr/bin/npx --yes -- server -y": {
			Source:   "npm:server",
			Unpinned: "server",
			Args:     args("-y"),
		},
		"npx -p pkg bin x": {
			Source:   "npm:pkg",
			Unpinned: "pkg",
			Program:  "bin",
			Args:     args("x"),
		},
		"npx --package=pkg@1 -- bin": {Source: "npm:pkg@1", Program: "bin"},
		"npx -p a -p b bin": {
			Source:   "npm:a",
			Unpinned: "a",
			Program:  "bin",
			Unclear:  "-p",
		},
		"npx --registry https://r.example server": {
			Source:   "npm:server",
			Unpinned: "server",
			Unclear:  "--registry",
		},
		"npx --node-options=--inspect server": {
			Source:   "npm:server",
			Unpinned: "server",
			Unclear:  "--node-options",
		},
		"npx ./local":          {},
		"npx ${PKG}":           {},
		"npx github:user/repo": {},
		"npx.cmd server":       {Source: "npm:server", Unpinned: "server"},
		"bunx server":          {Source: "npm:server", Unpinned: "server"},
		"pnpm dlx server a": {
			Source:   "npm:server",
			Unpinned: "server",
			Args:     args("a"),
		},
		"npm exec server@2": {Source: "npm:server@2"},
		"npm exec server --flag": {
			Source:   "npm:server",
			Unpinned: "server",
			Args:     args("--flag"),
			Unclear:  "--flag",
		},
		"npm exec server -- --flag": {
			Source:   "npm:server",
			Unpinned: "server",
			Args:     args("--flag"),
		},
		"npm x -- server --flag": {
			Source:   "npm:server",
			Unpinned: "server",
			Args:     args("--flag"),
		},
		"uvx mcp-server-git --repository .": {
			Source:   "pypi:mcp-server-git",
			Unpinned: "mcp-server-git",
			Args:     args("--repository ."),
		},
		"uvx mcp-server-git==0.6": {Source: "pypi:mcp-server-git==0.6"},
		"uvx mcp-server-git@0.6":  {Source: "pypi:mcp-server-git==0.6"},
		"uvx --from mcp-fetch==1 fetch a": {
			Source:  "pypi:mcp-fetch==1",
			Program: "fetch",
			Args:    args("a"),
		},
		"uvx --from git+https://example.com/x server": {Program: "server"},
		"uvx --python 3.12 server": {
			Source:   "pypi:server",
			Unpinned: "server",
			Unclear:  "--python",
		},
		"uv tool run server":                {Source: "pypi:server", Unpinned: "server"},
		"pipx run server":                   {Source: "pypi:server", Unpinned: "server"},
		"pipx run --spec server==2 program": {Source: "pypi:server==2", Program: "program"},
	} {
		got, ok := Parse(args(line))
		if len(got.Args) == 0 {
			got.Args = nil
		}
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("%s: %v, and of the command (-want +got):\n%s", line, ok, diff)
		}
	}
	for _, line := range []string{
		"npx",
		"npx -y",
		"npm install server",
		"npm exec",
		"uv run server",
		"node server.js",
		"",
		"npx -p",
	} {
		if got, ok := Parse(args(line)); ok {
			t.Errorf("%s: %+v, and it downloads nothing", line, got)
		}
	}
}

// A shell around npx or uvx changes nothing: the package is the same. A line that does more than that is known as one
// that downloads, and as one that cannot be locked.
func TestShells(t *testing.T) {
	weather := Command{Source: "npm:weather", Unpinned: "weather", Args: []string{"--city", "Bern"}}
	const line = "npx -y weather --city Bern"
	for _, argv := range [][]string{
		{"cmd", "/c", "npx", "-y", "weather", "--city", "Bern"},
		{"cmd.exe", "/d", "/s", "/C", line},
		{`C:\Windows\System32\cmd.exe`, "/c", "npx.cmd", "-y", "weather", "--city", "Bern"},
		{"bash", "-c", line},
		{"/bin/sh", "-c", "exec " + line},
		{"bash", "-lc", "npx -y weather --city 'Bern'"},
	} {
		got, ok := Parse(argv)
		if diff := cmp.Diff(weather, got); diff != "" || !ok {
			t.Errorf("%q: %v %s", argv, ok, diff)
		}
	}
	for _, line := range []string{"cd /srv && npx -y weather", "TOKEN=x npx weather", "npx -y weather | tee log"} {
		if got, ok := Parse([]string{"bash", "-c", line}); !ok || got.Unclear == "" || got.Source != "" {
			t.Errorf("%s: %v %+v", line, ok, got)
		}
	}
	for _, argv := range [][]string{
		{"bash", "-c", "exec ./server"},
		{"bash", "-c", "./server | tee log"},
		{"bash", "-c", "npm run build && node ."},
		{"bash", "server.sh", "npx"},
		{"bash", "-c"},
		{"bash", "-c", ""},
		{"cmd", "/c"},
		{"cmd", "/c", "server.exe", "npx"},
	} {
		if got, ok := Parse(argv); ok {
			t.Errorf("%q: %+v", argv, got)
		}
	}
}

// The image is found behind options with and without values, and a tag or a digest is a version.
func TestUntagged(t *testing.T) {
	for line, want := range map[string]string{
		"docker run -i --rm mcp/github":                                       "mcp/github",
		"docker run --rm -i -e TOKEN mcp/github stdio":                        "mcp/github",
		"docker run -it --init --name x -v/a:/b -p 1:2 --env=A=b ghcr.io/a/b": "ghcr.io/a/b",
		"podman container run registry.example:5000/a/b":                      "registry.example:5000/a/b",
		"docker run mcp/github:latest":                                        "mcp/github:latest",
		"docker run mcp/github:1.2":                                           "",
		"docker run mcp/github@sha256:abc":                                    "",
		"docker run ${IMAGE}":                                                 "",
		"docker compose up":                                                   "",
		"docker run -i --rm":                                                  "",
		"docker run -e":                                                       "",
	} {
		if got := Untagged(strings.Fields(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if got := Untagged([]string{"sh", "-c", "exec docker run -i mcp/github"}); got != "mcp/github" {
		t.Errorf("in a shell: %q", got)
	}
}
