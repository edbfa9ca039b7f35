/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/proviso-authz/proviso/pkg/etcd"
)

// defaultDataDir is the directory of the embedded etcd in the manifests.
const defaultDataDir = "/var/lib/proviso-apiserver"

// stdio is the name of the standard input or output, in place of a file.
const stdio = "-"

// backupOptions are the options of the commands backup and restore.
type backupOptions struct{ dataDir, file string }

func (o *backupOptions) addFlags(fs *pflag.FlagSet, file string) {
	fs.StringVar(&o.dataDir, "data-dir", defaultDataDir, "Directory of the embedded etcd.")
	fs.StringVar(&o.file, "file", stdio, file)
}

// newBackupCommand returns the command that writes a snapshot of the embedded etcd.
func newBackupCommand() *cobra.Command {
	o := &backupOptions{}
	return subcommand(&cobra.Command{
		Use:   "backup",
		Short: "Write a snapshot of the embedded etcd, while the server runs",
		Long: `backup writes a snapshot of the embedded etcd of a server that runs on the same
machine, or in the same container. The server goes on. The snapshot has a
checksum, and all that the server had acknowledged before. etcdutl reads it, too.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.backup(cmd) },
	}, "backup", func(fs *pflag.FlagSet) {
		o.addFlags(fs, "File to write. It is replaced when the snapshot is complete. \"-\" is the standard output.")
	})
}

func (o *backupOptions) backup(cmd *cobra.Command) error {
	if o.file == stdio {
		return etcd.Save(cmd.Context(), o.dataDir, cmd.OutOrStdout())
	}
	f, err := os.CreateTemp(filepath.Dir(o.file), filepath.Base(o.file)+".*") // only the user can read it
	if err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	err = etcd.Save(cmd.Context(), o.dataDir, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), o.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// newRestoreCommand returns the command that replaces the data of the embedded etcd.
func newRestoreCommand() *cobra.Command {
	o := &backupOptions{}
	return subcommand(&cobra.Command{
		Use:   "restore",
		Short: "Replace the data of the embedded etcd by a snapshot",
		Long: `restore replaces the data of the embedded etcd by a snapshot that backup has
written. No server may use the directory meanwhile. The earlier data stay beside
the new ones, in a directory whose name restore prints.

A snapshot that is incomplete changes nothing. If restore is killed, no server
starts with the directory until restore has been repeated.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.restore(cmd) },
	}, "restore", func(fs *pflag.FlagSet) {
		o.addFlags(fs, "File to read. \"-\" is the standard input.")
	})
}

func (o *backupOptions) restore(cmd *cobra.Command) error {
	content := cmd.InOrStdin()
	if o.file != stdio {
		f, err := os.Open(o.file)
		if err != nil {
			return fmt.Errorf("--file: %w", err)
		}
		defer f.Close()
		content = io.Reader(f)
	}
	earlier, err := etcd.Restore(o.dataDir, content)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Restored the snapshot into %s.\n", o.dataDir)
	if earlier != "" && err == nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "The earlier data are in %s: delete them when you do not need them any more.\n", earlier)
	}
	return err
}
