/* Shuts an ext4 file system down as a power cut does: nothing that is not on the disk by now gets there any more. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define EXT4_IOC_SHUTDOWN _IOR('X', 125, uint32_t)
#define NO_LOG_FLUSH 2

int main(int count, char **words) {
  uint32_t how = NO_LOG_FLUSH;
  int folder = open(words[count - 1], O_RDONLY);
  if (folder >= 0 && ioctl(folder, EXT4_IOC_SHUTDOWN, &how) == 0) return 0;
  perror("power-cut");
  return 1;
}
