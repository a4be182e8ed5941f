package packages

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/exthost/exthost/internal/download"
)

// ofRegistry begins the address of an archive that is relative to that of the registry which has the package.
const ofRegistry = "registry://"

// stated returns how the lock file states where an archive is. The address of a registry may hold a token
// in its path, and is each user's own: what shares it is stated relative to it.
func stated(registry, archive string) (string, error) {
	at, err := url.Parse(registry)
	if err != nil {
		return "", errors.New("the registry is no address")
	}
	u, err := url.Parse(archive)
	switch {
	case err != nil:
		return "", errors.New("the registry states an archive at what is no address")
	case u.RawQuery != "":
		return "", fmt.Errorf("the registry states an archive at %s with a query, which may be a secret and would be in exthost.lock", u.Host)
	}
	u.User, u.Fragment = nil, ""
	if rel, ok := download.Relative(at, u); ok {
		return ofRegistry + rel, nil
	}
	for part := range strings.SplitSeq(at.EscapedPath(), "/") {
		if len(part) >= minToken && strings.Contains(u.String(), part) {
			return "", fmt.Errorf("the registry states an archive at %s, at an address with a part of that of the registry, which may be a token and would be in exthost.lock", u.Host)
		}
	}
	return u.String(), nil
}

// paths are those of the registries, which may hold a token.
func (o origin) paths() (list []string) {
	for _, registry := range o.registries {
		if u, err := url.Parse(registry); err == nil && strings.Trim(u.EscapedPath(), "/") != "" && registry != defaultIndex {
			list = append(list, strings.Trim(u.EscapedPath(), "/"))
		}
	}
	return list
}

const minToken = 16 // characters of the shortest token that a path has

// address returns where an archive is that the lock file states.
func (o origin) address(name, text string) (string, error) {
	rel, ok := strings.CutPrefix(text, ofRegistry)
	if !ok {
		return text, nil
	}
	if o.of == nil {
		return "", errors.New("its archive is at a registry, and its source has none")
	}
	at, err := url.Parse(strings.TrimSuffix(o.of(name), "/") + "/")
	if err != nil {
		return "", errors.New("the registry is no address")
	}
	u, err := at.Parse("./" + rel)
	if err != nil {
		return "", fmt.Errorf("%q is no address of an archive", text)
	}
	return u.String(), nil
}
