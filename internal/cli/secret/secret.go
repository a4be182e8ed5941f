// Package secret implements exthost secret, which manages the secrets that configurations and manifests refer to,
// grants them to extensions and signs the user in to remote servers.
package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/secret/secrets"
)

// Command returns exthost secret.
func Command(c *console.Console) *cobra.Command {
	return console.Group("secret", "Keep secrets, grant them to extensions, sign in to servers",
		set(c), list(c), remove(c), grantCommand(c), loginCommand(c), logoutCommand(c))
}

// store returns the configured store, if this program can write it.
func store(c *console.Console, name string) (hosts.SecretWriter, *config.Config, error) {
	if err := secrets.CheckName(name); err != nil {
		return nil, nil, console.Usagef("such as exthost secret set github", "%v", err)
	}
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return nil, nil, err
	}
	switch s := hosts.Secrets(cfg).(type) {
	case hosts.SecretWriter:
		return s, cfg, nil
	case interface{ HowToSet(name string) string }:
		return nil, nil, &console.Error{
			Code: console.ExitFailed,
			Hint: s.HowToSet(name),
			Text: fmt.Sprintf("exthost only reads what secrets.provider %s has", cfg.Secrets.Provider),
		}
	}
	return nil, nil, &console.Error{Code: console.ExitFailed, Text: "there is no store of secrets"}
}

func set(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME",
		Short: "Store a secret, read from stdin or asked for",
		Long: "Store a secret, in place of an earlier one of that name. The value is read from stdin, without\n" +
			"the end of its last line; on a terminal it is asked for and not shown. The running host of this\n" +
			"directory starts again what is given the secret.",
		Example: "  exthost secret set github\n  gh auth token | exthost secret set github",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return console.Usagef("exthost secret set NAME < FILE",
					"a value is no argument, which others on this machine and the shell's history would show")
			}
			return console.One("the NAME of a secret")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			s, cfg, err := store(c, name)
			if err != nil {
				return err
			}
			value, err := read(c, name)
			if err != nil {
				return err
			}
			if len(value) < leastMasked {
				c.Warn("a value of fewer than %d bytes is not masked in the log: it would occur there by chance",
					leastMasked)
			}
			if err := s.Set(name, value); err != nil {
				return fmt.Errorf("%s is not stored: %w", name, err)
			}
			return renew(cmd.Context(), c, cfg, name)
		},
	}
}

// leastMasked is the length of the shortest value that the host masks, in bytes.
const leastMasked = 6

// read reads the value from stdin, or asks for it on a terminal.
func read(c *console.Console, name string) (string, error) {
	var data []byte
	var err error
	if c.Interactive() {
		var line string
		if line, err = c.ReadSecret("value of " + name + ": "); errors.Is(err, console.ErrNoAnswer) {
			return "", &console.Error{Code: console.ExitCanceled, Text: "no value; nothing was stored"}
		}
		data = []byte(line)
	} else {
		data, err = io.ReadAll(io.LimitReader(c.In, secrets.MaxValue+3)) // with a line end
	}
	if err != nil {
		return "", err
	}
	value, err := secrets.Value(data)
	if err != nil {
		return "", console.Usagef("exthost secret set "+name+" < FILE", "%v", err)
	}
	return value, nil
}

func remove(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a secret",
		Args:  console.One("the NAME of a secret"),
		Long: "Remove a stored secret. What runs keeps what it was given; what refers to the secret does " +
			"not\nstart again.",
		Example: "  exthost secret remove github",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, cfg, err := store(c, args[0])
			if err != nil {
				return err
			}
			if err := s.Remove(args[0]); errors.Is(err, fs.ErrNotExist) {
				return &console.Error{
					Code: console.ExitNotFound,
					Text: "there is no secret " + args[0],
					Hint: "exthost secret list",
				}
			} else if err != nil {
				return err
			}
			return hosts.Apply(cmd.Context(), c, cfg, args[0]+" is removed")
		},
	}
}
