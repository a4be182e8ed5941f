package credentials_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/exthost/exthost/cluster/hub"
	"github.com/exthost/exthost/cluster/internal/credentials"
	"github.com/exthost/exthost/config/cluster"
)

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "n1.creds")
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func invitation(t *testing.T) string {
	t.Helper()
	f, err := hub.Init(filepath.Join(t.TempDir(), "cluster"), "main", []string{"tls://h1:7822", "tls://h2:7822"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := f.Invite("n1")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The tools of NATS accept an invitation and its signatures.
func TestInvitation(t *testing.T) {
	text := invitation(t)
	c, err := credentials.Read(write(t, text, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if c.Cluster != "main" || c.Node != "n1" || strings.Join(c.URLs, " ") != "tls://h1:7822 tls://h2:7822" ||
		c.TLS.ServerName != "main.hub.exthost" || c.TLS.RootCAs == nil {
		t.Errorf("%+v", c)
	}
	theirs, err := jwt.ParseDecoratedJWT([]byte(text))
	if err != nil || theirs != c.JWT {
		t.Errorf("%v: %.40q, want %.40q", err, theirs, c.JWT)
	}
	k, err := jwt.ParseDecoratedUserNKey([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := c.Sign([]byte("nonce"))
	if err != nil || k.Verify([]byte("nonce"), sig) != nil {
		t.Errorf("the signature is not valid: %v", err)
	}
}

func TestCredentialsOfOwnServers(t *testing.T) {
	k, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := k.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err := k.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	urls := []string{"nats://127.0.0.1:4222"}
	c, err := credentials.Of(&cluster.Membership{URLs: urls, NKey: write(t, "# of n1\n"+string(seed)+"\n", 0o600)})
	if err != nil {
		t.Fatal(err)
	}
	sig, err := c.Sign([]byte("nonce"))
	if err != nil || c.NKey != public || k.Verify([]byte("nonce"), sig) != nil || c.JWT != "" {
		t.Errorf("%v: %+v", err, c)
	}
	user := jwt.NewUserClaims(public)
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	token, err := user.Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = credentials.Of(&cluster.Membership{URLs: urls, Creds: write(t, string(plain), 0o600)}); err != nil ||
		c.JWT != token || c.TLS != nil || c.URLs[0] != urls[0] {
		t.Errorf("%v: %+v", err, c)
	}
	if c, err = credentials.Of(&cluster.Membership{URLs: urls}); err != nil || c.Sign != nil || c.JWT != "" {
		t.Errorf("%v: %+v", err, c)
	}
}

// An invalid file is refused with the remedy.
func TestRefused(t *testing.T) {
	text, other := invitation(t), invitation(t)
	seed := func(text string) string {
		_, rest, _ := strings.Cut(text, "SEED-----\n")
		line, _, _ := strings.Cut(rest, "\n")
		return line
	}
	for name, tt := range map[string]struct{ text, want string }{
		"empty":            {"", "no JWT"},
		"another's seed":   {strings.Replace(text, seed(text), seed(other), 1), "seed is not that"},
		"a broken seed":    {strings.Replace(text, seed(text)[:30], "SUAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 1), "seed"},
		"without a node":   {strings.Replace(text, "node: n1\n", "", 1), "which cluster, node"},
		"an odd node":      {strings.Replace(text, "node: n1\n", "node: *\n", 1), "no name"},
		"an odd address":   {strings.Replace(text, "tls://h1:7822", "http://h1:7822", 1), "tls://n1:7822"},
		"half of the CA":   {text[:len(text)-200], "CA"},
		"without the CA":   {text[:strings.Index(text, "-----BEGIN CERT")], "CA"},
		"a JWT of no form": {strings.Replace(text, ".ey", "", 1), "JWT"},
		"too large":        {text + strings.Repeat("x", 300<<10), "more than"},
	} {
		if _, err := credentials.Read(write(t, tt.text, 0o600)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		} else if strings.Contains(err.Error(), seed(text)) {
			t.Errorf("%s: the error shows the seed", name)
		}
	}
	if _, err := credentials.Read(filepath.Join(t.TempDir(), "n9.creds")); err == nil ||
		!strings.Contains(err.Error(), "exthost cluster invite") {
		t.Errorf("missing: %v", err)
	}
	if _, err := credentials.Read(write(t, text, 0o644)); runtime.GOOS != "windows" &&
		(err == nil || !strings.Contains(err.Error(), "chmod")) {
		t.Errorf("readable by all: %v", err)
	}
}
