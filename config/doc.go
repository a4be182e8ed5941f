// Package config reads the host's own files: exthost.yaml or exthost.toml, or
// the files of a config directory, the user's and the system's, EXTHOST_*
// variables and flags, laid over one another and over [Default].
//
//	cfg, origins, diags := config.Load(config.LoadOptions{})
//	for _, d := range diags {
//		fmt.Println(d) // exthost.yaml:3:3: unknown key "search_path" in extensions; did you mean "search_paths"?
//	}
//	fmt.Println(cfg.Server.Listen, "from", origins.Of("server.listen"))
//
// Decoding is strict: unknown keys, wrong types, values out of range and fields
// that exclude each other are all reported at once, and with any error there is no
// configuration. YAML and TOML have the same schema, see [Schema].
package config
