/** Castagnoli polynomial, reflected (RFC 3720, appendix B.4). */
const POLYNOMIAL = 0x82f63b78;

/** The checksum that Secret Manager verifies a payload with. */
export function crc32c(data: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of data) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}
