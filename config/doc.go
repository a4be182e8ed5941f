// Package config reads the configuration of the host: exthost.yaml or exthost.toml, or the files of a config
// directory, the files of the user and the system, EXTHOST_* variables and flags, laid over one another and over
// [Default].
//
//	cfg, err := config.Load(config.LoadOptions{})
//	if err != nil {
//		return err // exthost.yaml:3:3: unknown key "search_path" in extensions; did you mean "search_paths"?
//	}
//	fmt.Println(cfg.Server.Listen, "from", cfg.Origins.Of("server.listen"))
//
// Decoding is strict: unknown keys, wrong types, values out of range and conflicting fields are all reported at
// once, and any error means no configuration. YAML and TOML share one schema, see [Schema].
package config
