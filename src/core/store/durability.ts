/** When a write is acknowledged: once it is in the storage, or once it is on the disk. */
export const DURABILITIES = ["bucket", "disk"] as const;
export type Durability = (typeof DURABILITIES)[number];
