package packages

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/exthost/exthost/internal/supply/download"
	"github.com/exthost/exthost/internal/supply/store"
)

var commitHash = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// gitFlags keep git from running hooks and helpers, using other protocols and following redirects.
var gitFlags = []string{"-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false", "-c",
	"protocol.allow=never", "-c", "protocol.ext.allow=never", "-c", "http.followRedirects=false",
	"-c", "fetch.fsckObjects=true", "-c", "fetch.recurseSubmodules=false", "-c", "credential.helper=", "-c",
	"gc.auto=0", "-c", "core.attributesFile=" + os.DevNull}

// gitRepo runs git in a temporary repository that contains only the fetched reference.
type gitRepo struct {
	dir  string
	env  []string
	http bool // allow http, for a repository on this machine
}

func (g *gitRepo) run(ctx context.Context, args ...string) ([]byte, error) {
	allow := "protocol.https.allow=always"
	if g.http {
		allow = "protocol.http.allow=always"
	}
	argv := append(append([]string{"git"}, gitFlags...), "-c", allow)
	return (command{dir: g.dir, argv: append(argv, args...), env: g.env}).run(ctx)
}

// fetchGit creates a repository with ref of the one at address, a valid http or https URL.
func fetchGit(ctx context.Context, env []string, address, ref string) (*gitRepo, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	var own []string
	if u.Scheme == "http" { // download.New refuses http to other machines
		own = []string{address}
	}
	client, err := download.New(own...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.Allows(address); err != nil {
		return nil, err
	}
	g := &gitRepo{http: u.Scheme == "http"}
	for _, v := range env {
		if !strings.HasPrefix(v, "GIT_") && !strings.HasPrefix(v, "SSH_ASKPASS") {
			g.env = append(g.env, v)
		}
	}
	g.env = append(g.env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_ATTR_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1")
	if g.dir, err = os.MkdirTemp("", "exthost-git-"); err != nil {
		return nil, err
	}
	if _, err = g.run(ctx, "init", "--quiet", "--bare", "--template="); err == nil {
		_, err = g.run(ctx, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--end-of-options",
			address, ref)
	}
	if err != nil {
		os.RemoveAll(g.dir)
		return nil, err
	}
	return g, nil
}

// gitCommit resolves a reference to a commit hash.
func gitCommit(ctx context.Context, env []string, address, ref string) (string, error) {
	g, err := fetchGit(ctx, env, address, ref)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(g.dir)
	out, err := g.run(ctx, "rev-parse", "--verify", "FETCH_HEAD^{commit}")
	if commit := strings.TrimSpace(string(out)); err != nil || commitHash.MatchString(commit) {
		return commit, err
	}
	return "", fmt.Errorf("git says %q in place of a commit", out)
}

// gitArchive returns the files of a commit as a tar archive, and the paths of its submodules, which are not in it.
func gitArchive(ctx context.Context, env []string, address, commit string,
) (archive []byte, submodules []string, err error) {
	if !commitHash.MatchString(commit) {
		return nil, nil, fmt.Errorf("%q is no commit", commit)
	}
	g, err := fetchGit(ctx, env, address, commit)
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(g.dir)
	out, err := g.run(ctx, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.SplitSeq(string(out), "\x00") {
		if mode, _, _ := strings.Cut(line, " "); mode == "160000" {
			_, name, _ := strings.Cut(line, "\t")
			submodules = append(submodules, name)
		}
	}
	archive, err = g.run(ctx, "archive", "--format=tar", commit)
	if errors.As(err, new(errTooLong)) {
		err = fmt.Errorf("the files of commit %.12s are over %d MiB; exthost add FOLDER takes a clone with up to %d "+
			"MiB", commit, maxOutput>>20, store.MaxArchive>>20)
	}
	return archive, submodules, err
}
