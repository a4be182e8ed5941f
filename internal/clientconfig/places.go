package clientconfig

import (
	"os"
	"path/filepath"
	"runtime"
)

// Places returns the files of other programs that exist for the project in dir and for the
// user with that home directory, those of the project first.
func Places(dir, home string) (files []string) {
	names := []string{
		filepath.Join(dir, ".mcp.json"), filepath.Join(dir, ".cursor", "mcp.json"), filepath.Join(dir, ".vscode", "mcp.json"),
		filepath.Join(dir, ".gemini", "settings.json"), filepath.Join(dir, ".codex", "config.toml"),
		filepath.Join(home, ".claude.json"), filepath.Join(home, ".cursor", "mcp.json"), filepath.Join(home, ".codex", "config.toml"),
		filepath.Join(home, ".gemini", "settings.json"), filepath.Join(home, ".codeium", "windsurf", "mcp_config.json"),
	}
	if settings, err := os.UserConfigDir(); err == nil {
		names = append(names, filepath.Join(settings, "Claude", "claude_desktop_config.json"), filepath.Join(settings, "Code", "User", "mcp.json"))
	}
	if runtime.GOOS == "linux" && home != "" {
		names = append(names, filepath.Join(home, ".config", "Claude", "claude_desktop_config.json"))
	}
	seen := make(map[string]bool)
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && !seen[name] {
			seen[name] = true
			files = append(files, name)
		}
	}
	return files
}
