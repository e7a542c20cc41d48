//! The structures of `<linux/fuse.h>` beside ours, written once for all layout tests.

/// Calls `$row!(since_minor fuse_name OurName { field field@minor … })` for every structure of
/// FUSE 7.40. A field's `@minor` says since when it has that name; without it, it is as old as the
/// structure. Fields called `type` in C are compared by hand where the tests differ.
#[macro_export]
macro_rules! structs_7_40 {
    ($row:ident) => {
        $row!(19 fuse_attr Attr { ino size blocks atime mtime ctime atimensec mtimensec ctimensec mode nlink uid gid rdev blksize flags@32 });
        $row!(19 fuse_kstatfs Kstatfs { blocks bfree bavail files ffree bsize namelen frsize padding spare });
        $row!(19 fuse_file_lock FileLock { start end pid });
        $row!(39 fuse_sx_time SxTime { tv_sec tv_nsec });
        $row!(39 fuse_statx Statx { mask blksize attributes nlink uid gid mode ino size blocks attributes_mask atime btime ctime mtime rdev_major rdev_minor dev_major dev_minor });
        $row!(19 fuse_entry_out EntryOut { nodeid generation entry_valid attr_valid entry_valid_nsec attr_valid_nsec attr });
        $row!(19 fuse_forget_in ForgetIn { nlookup });
        $row!(19 fuse_forget_one ForgetOne { nodeid nlookup });
        $row!(19 fuse_batch_forget_in BatchForgetIn { count dummy });
        $row!(19 fuse_getattr_in GetattrIn { getattr_flags dummy fh });
        $row!(19 fuse_attr_out AttrOut { attr_valid attr_valid_nsec dummy attr });
        $row!(39 fuse_statx_in StatxIn { getattr_flags reserved fh sx_flags sx_mask });
        $row!(39 fuse_statx_out StatxOut { attr_valid attr_valid_nsec flags spare stat });
        $row!(19 fuse_mknod_in MknodIn { mode rdev umask padding });
        $row!(19 fuse_mkdir_in MkdirIn { mode umask });
        $row!(19 fuse_rename_in RenameIn { newdir });
        $row!(23 fuse_rename2_in Rename2In { newdir flags padding });
        $row!(19 fuse_link_in LinkIn { oldnodeid });
        $row!(19 fuse_setattr_in SetattrIn { valid padding fh size lock_owner atime mtime ctime@23 atimensec mtimensec ctimensec@23 mode unused4 uid gid unused5 });
        $row!(19 fuse_open_in OpenIn { flags open_flags@33 });
        $row!(19 fuse_create_in CreateIn { flags mode umask open_flags@33 });
        $row!(19 fuse_open_out OpenOut { fh open_flags backing_id@40 });
        $row!(19 fuse_release_in ReleaseIn { fh flags release_flags lock_owner });
        $row!(19 fuse_flush_in FlushIn { fh unused padding lock_owner });
        $row!(19 fuse_read_in ReadIn { fh offset size read_flags lock_owner flags padding });
        $row!(19 fuse_write_in WriteIn { fh offset size write_flags lock_owner flags padding });
        $row!(19 fuse_write_out WriteOut { size padding });
        $row!(19 fuse_statfs_out StatfsOut { st });
        $row!(19 fuse_fsync_in FsyncIn { fh fsync_flags padding });
        $row!(33 fuse_setxattr_in SetxattrIn { size flags setxattr_flags padding });
        $row!(19 fuse_getxattr_in GetxattrIn { size padding });
        $row!(19 fuse_getxattr_out GetxattrOut { size padding });
        $row!(19 fuse_lk_in LkIn { fh owner lk lk_flags padding });
        $row!(19 fuse_lk_out LkOut { lk });
        $row!(19 fuse_access_in AccessIn { mask padding });
        $row!(36 fuse_init_in InitIn { major minor max_readahead flags flags2 unused });
        $row!(23 fuse_init_out InitOut { major minor max_readahead flags max_background congestion_threshold max_write time_gran max_pages@28 map_alignment@31 flags2@36 max_stack_depth@40 });
        $row!(19 cuse_init_in CuseInitIn { major minor unused flags });
        $row!(19 cuse_init_out CuseInitOut { major minor unused flags max_read max_write dev_major dev_minor spare });
        $row!(19 fuse_interrupt_in InterruptIn { unique });
        $row!(19 fuse_bmap_in BmapIn { block blocksize padding });
        $row!(19 fuse_bmap_out BmapOut { block });
        $row!(19 fuse_ioctl_in IoctlIn { fh flags cmd arg in_size out_size });
        $row!(19 fuse_ioctl_iovec IoctlIovec { base len });
        $row!(19 fuse_ioctl_out IoctlOut { result flags in_iovs out_iovs });
        $row!(19 fuse_poll_in PollIn { fh kh flags events@21 });
        $row!(19 fuse_poll_out PollOut { revents padding });
        $row!(19 fuse_notify_poll_wakeup_out NotifyPollWakeupOut { kh });
        $row!(19 fuse_fallocate_in FallocateIn { fh offset length mode padding });
        $row!(19 fuse_in_header InHeader { len opcode unique nodeid uid gid pid total_extlen@38 padding@38 });
        $row!(19 fuse_out_header OutHeader { len error unique });
        $row!(19 fuse_dirent Dirent { ino off namelen });
        $row!(21 fuse_direntplus DirentPlus { entry_out dirent });
        $row!(19 fuse_notify_inval_inode_out NotifyInvalInodeOut { ino off len });
        $row!(19 fuse_notify_inval_entry_out NotifyInvalEntryOut { parent namelen flags@38 });
        $row!(19 fuse_notify_delete_out NotifyDeleteOut { parent child namelen padding });
        $row!(19 fuse_notify_store_out NotifyStoreOut { nodeid offset size padding });
        $row!(19 fuse_notify_retrieve_out NotifyRetrieveOut { notify_unique nodeid offset size padding });
        $row!(19 fuse_notify_retrieve_in NotifyRetrieveIn { dummy1 offset size dummy2 dummy3 dummy4 });
        $row!(24 fuse_lseek_in LseekIn { fh offset whence padding });
        $row!(24 fuse_lseek_out LseekOut { offset });
        $row!(28 fuse_copy_file_range_in CopyFileRangeIn { fh_in off_in nodeid_out fh_out off_out len flags });
        $row!(31 fuse_setupmapping_in SetupmappingIn { fh foffset len flags moffset });
        $row!(31 fuse_removemapping_in RemovemappingIn { count });
        $row!(31 fuse_removemapping_one RemovemappingOne { moffset len });
        $row!(34 fuse_syncfs_in SyncfsIn { padding });
        $row!(36 fuse_secctx Secctx { size padding });
        $row!(36 fuse_secctx_header SecctxHeader { size nr_secctx });
        $row!(38 fuse_ext_header ExtHeader { size });
        $row!(39 fuse_supp_groups SuppGroups { nr_groups });
    };
}
