package packages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/download"
	"github.com/exthost/exthost/internal/packages/unpacked"
)

const mcpRegistry = "https://registry.modelcontextprotocol.io"

// registered is what the MCP registry says of a server: the published server.json.
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

// addRegistered adds the package that the MCP registry names for a server. The package has to
// name the server too: anybody can publish a server.json that names the package of another.
func (i *Installer) addRegistered(ctx context.Context, s Source) (*Package, error) {
	base := cmp.Or(i.MCPRegistry, mcpRegistry)
	client, err := download.New(base)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	data, err := client.Get(ctx, base+"/v0.1/servers/"+url.PathEscape(s.Name)+"/versions/"+cmp.Or(s.Version, "latest"), "application/json", unpacked.MaxPackageJSON)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	var r registered
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: the registry's answer: %w", s, err)
	}
	if r.Server.Name != s.Name {
		return nil, fmt.Errorf("%s: the registry answers about %q", s, r.Server.Name)
	}
	pkg, from, err := r.choose()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	known, err := i.Store.Trees()
	if err != nil {
		return nil, err
	}
	p, err := i.Add(ctx, from)
	if err != nil {
		return nil, err
	}
	if p.Run.Server != s.Name {
		err := fmt.Errorf("%s: the registry names %s, which does not say that it is this server, but %q", s, from, p.Run.Server)
		if slices.Contains(known, p.Tree) { // another extension's
			return nil, err
		}
		return nil, errors.Join(err, i.Store.Remove(p.Tree))
	}
	p.Source = s
	for _, v := range pkg.Environment {
		if v.Required {
			p.Run.Asks = append(p.Run.Asks, v.Name)
		}
	}
	return p, nil
}

// choose returns the first package that runs here.
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
	return registeredPackage{}, Source{}, fmt.Errorf("the registry names no package of npm or PyPI on stdio for it: %s", cmp.Or(strings.Join(others, ", "), "none"))
}
