package packages

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/exthost/exthost/internal/supply/download"
)

const mcpRegistry = "https://registry.modelcontextprotocol.io"

// registered is a server.json from the MCP registry.
type registered struct {
	Server struct {
		Name        string              `json:"name"`
		Description string              `json:"description"`
		Packages    []registeredPackage `json:"packages"`
	} `json:"server"`
}

type registeredPackage struct {
	Type       string `json:"registryType"`
	Identifier string `json:"identifier"`
	Version    string `json:"version"`
	Transport  struct {
		Type string `json:"type"`
	} `json:"transport"`
	Environment []struct {
		Name     string `json:"name"`
		Required bool   `json:"isRequired"`
	} `json:"environmentVariables"`
}

// registeredServer is a server in the MCP registry and its package. The package must name the server too, because
// anybody can publish a server.json that refers to somebody else's package.
type registeredServer struct {
	name string
	from Source   // its package
	asks []string // required variables
}

// check refuses a package that does not name the server, and adds the server's required variables.
func (r *registeredServer) check(run *Run) error {
	switch {
	case r == nil:
		return nil
	case run.Server != r.name:
		return fmt.Errorf("the registry names %s, which does not say that it is this server, but %q", r.from,
			run.Server)
	}
	run.Asks = append(run.Asks, r.asks...)
	return nil
}

// resolveRegistered resolves the package of a server in the MCP registry.
func (i *Installer) resolveRegistered(ctx context.Context, s Source) (resolved, error) {
	base := cmp.Or(i.MCPRegistry, mcpRegistry)
	client, err := download.New(base)
	if err != nil {
		return resolved{}, err
	}
	defer client.Close()
	data, err := client.Get(ctx, base+"/v0.1/servers/"+url.PathEscape(s.Name)+"/versions/"+cmp.Or(s.Version, "latest"),
		"application/json", maxPackageJSON)
	if err != nil {
		return resolved{}, err
	}
	var answer registered
	if err := json.Unmarshal(data, &answer); err != nil {
		return resolved{}, fmt.Errorf("the registry's answer: %w", err)
	}
	if answer.Server.Name != s.Name {
		return resolved{}, fmt.Errorf("the registry answers about %q", answer.Server.Name)
	}
	pkg, from, err := answer.choose()
	if err != nil {
		return resolved{}, err
	}
	server := &registeredServer{name: s.Name, from: from}
	for _, v := range pkg.Environment {
		if v.Required {
			server.asks = append(server.asks, v.Name)
		}
	}
	r, err := i.resolve(ctx, from)
	r.server = server
	return r, err
}

// choose returns the first npm or PyPI package that uses stdio.
func (r *registered) choose() (registeredPackage, Source, error) {
	var others []string
	for _, p := range r.Server.Packages {
		prefix := map[string]string{"npm": "npm:", "pypi": "pypi:"}[p.Type]
		at := map[string]string{"npm": "@", "pypi": "=="}[p.Type]
		if prefix == "" || p.Transport.Type != "" && p.Transport.Type != "stdio" {
			others = append(others, strings.TrimSpace(p.Type+" "+p.Transport.Type))
			continue
		}
		if p.Version == "" {
			at = ""
		}
		s, err := Parse(prefix + p.Identifier + at + p.Version)
		return p, s, err
	}
	return registeredPackage{}, Source{}, fmt.Errorf("the registry names no package of npm or PyPI on stdio for it: %s",
		cmp.Or(strings.Join(others, ", "), "none"))
}
