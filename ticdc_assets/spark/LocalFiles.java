package ticdc_assets;

import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Local files with the permissions of the process's umask and without files of checksums. */
public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
        setWriteChecksum(false);
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) {}
    }
}
