"""Inputs of our own in the shape of outputs that may not be copied, or that nobody has published."""

JETSON = """\
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 540.3.0                Driver Version: N/A          CUDA Version: 12.6     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  Orin (nvgpu)                  N/A  | N/A              N/A |                  N/A |
| N/A   N/A  N/A               N/A /  N/A | Not Supported        |     N/A          N/A |
|                                         |                      |                  N/A |
+-----------------------------------------+----------------------+----------------------+

+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|        ID   ID                                                             Usage      |
|=======================================================================================|
|  No running processes found                                                           |
+---------------------------------------------------------------------------------------+
"""

LOST_BESIDE_HEALTHY = """\
Thu Mar 12 10:11:12 2020
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 440.64       Driver Version: 440.64       CUDA Version: 10.2     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GTX 108...  Off  | 00000000:05:00.0 Off |                  N/A |
| 23%   35C    P8    9W / 250W  |      1MiB / 11178MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   1  GeForce GTX 108...  Off  | 00000000:06:00.0 Off |                  N/A |
|ERR!  ERR! ERR!    N/A / ERR!  | GPU is lost          |    ERR!         ERR! |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    1                    GPU is lost                                         |
|    0      1234      C   python                                       345MiB |
+-----------------------------------------------------------------------------+
WARNING: infoROM is corrupted at gpu 0000:05:00.0
"""

DRIVER_340 = """\
+------------------------------------------------------+
| NVIDIA-SMI 340.29     Driver Version: 340.29         |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla K20m          Off  | 0000:02:00.0     Off |                  Off |
| N/A   31C    P0    48W / 225W |   4732MiB /  4799MiB |     99%   E. Process |
+-------------------------------+----------------------+----------------------+
|   1  Tesla K20m          On   | 0000:03:00.0     Off |                    2 |
| N/A   28C    P8    16W / 225W |     14MiB /  4799MiB |      0%   Prohibited |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Compute processes:                                               GPU Memory |
|  GPU       PID  Process name                                     Usage      |
|=============================================================================|
|    0     12345  ./a.out with args                                   4715MiB |
+-----------------------------------------------------------------------------+
"""

SHARED_INSTANCE = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.82       Driver Version: 470.82       CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+
|   0  NVIDIA A100-SXM...  On   | 00000000:01:00.0 Off |                   On |
| N/A   31C    P0    45W / 400W |     25MiB / 40536MiB |     N/A      Default |
|                               |                      |             Enabled* |
+-------------------------------+----------------------+----------------------+
+-----------------------------------------------------------------------------+
| MIG devices:                                                                |
+------------------+----------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared        |
|      ID  ID  Dev |           BAR1-Usage | SM     Unc| CE  ENC  DEC  OFA  JPG|
|                  |                      |        ECC|                       |
|==================+======================+===========+=======================|
|  0    1   0   0  |     11MiB / 20096MiB | 14      0 |  3   0    2    0    0 |
|                  |      0MiB / 32767MiB |           |                       |
+------------------+                      +-----------+-----------------------+
|  0    1   1   1  |                      | 28      0 |  3   0    2    0    0 |
|                  |                      |           |                       |
+------------------+----------------------+-----------+-----------------------+
"""

VGPU_TABLE = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 430.46       Driver Version: 430.46                              |
|-------------------------------+--------------------------------+------------+
| GPU  Name                     | Bus-Id                         | GPU-Util   |
|      vGPU ID    Name          | VM ID    VM Name               | vGPU-Util  |
|===============================+================================+============|
|   0  Tesla V100-PCIE-32GB     | 00000000:3B:00.0               |   5%       |
|      3251634213  GRID V100-4C | ee7b7  guest1                  |      3%    |
|      3251634214  GRID V100-4C | ee7b8  guest2                  |      0%    |
+-------------------------------+--------------------------------+------------+
|   1  Tesla V100-PCIE-32GB     | 00000000:D8:00.0               |   0%       |
+-------------------------------+--------------------------------+------------+
"""

VGPU_TEXT = """\

==============NVSMI LOG==============

Timestamp                           : Tue Jan 1 00:00:00 2019
Driver Version                      : 430.46

Attached GPUs                       : 2
GPU 00000000:3B:00.0
    Active vGPUs                    : 1
    vGPU ID                         : 3251634213
        VM Name                     : guest1
        vGPU Name                   : GRID V100-4C
        vGPU UUID                   : d471c7f2-0a53-11e9-afd3-38b06df18e37
        FB Memory Usage             :
            Total                   : 4096 MiB
            Used                    : 160 MiB

GPU 00000000:D8:00.0
    Active vGPUs                    : 0
"""

DRIVER_340_TEXT = """\

==============NVSMI LOG==============

Timestamp                           : Mon Jan 12 10:00:00 2015
Driver Version                      : 340.29

Attached GPUs                       : 1
GPU 0000:02:00.0
    Product Name                    : Tesla K20m
    Persistence Mode                : Enabled
    Serial Number                   : 0324612000001
    GPU UUID                        : GPU-aaaaaaaa-0000-4000-8000-000000000001
    Minor Number                    : 0
    PCI
        Bus Id                      : 0000:02:00.0
        GPU Link Info
            PCIe Generation
                Max                 : 2
                Current             : 1
            Link Width
                Max                 : 16x
                Current             : 8x
    Fan Speed                       : N/A
    Performance State               : P8
    Clocks Throttle Reasons
        Idle                        : Active
        Applications Clocks Setting : Not Active
        SW Power Cap                : Not Active
        HW Slowdown                 : Not Active
        Unknown                     : Not Active
    FB Memory Usage
        Total                       : 4799 MiB
        Used                        : 11 MiB
        Free                        : 4788 MiB
    Compute Mode                    : Default
    Utilization
        Gpu                         : 0 %
        Memory                      : 0 %
    Ecc Mode
        Current                     : Enabled
        Pending                     : Disabled
    ECC Errors
        Volatile
            Single Bit
                Device Memory       : 3
                Register File       : 0
                Total               : 3
            Double Bit
                Device Memory       : 1
                Total               : 1
    Retired Pages
        Single Bit ECC              : 1
        Double Bit ECC              : 0
        Pending                     : Yes
    Temperature
        GPU Current Temp            : 26 C
        GPU Shutdown Temp           : 95 C
        GPU Slowdown Temp           : 90 C
    Power Readings
        Power Draw                  : 25.36 W
        Power Limit                 : 225.00 W
        Default Power Limit         : 225.00 W
    Clocks
        SM                          : 324 MHz
        Memory                      : 324 MHz
    Compute Processes               : None
"""

LOST_XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>535.104.05</driver_version>
  <attached_gpus>2</attached_gpus>
  <gpu id="00000000:17:00.0">
    <product_name>NVIDIA A100-SXM4-80GB</product_name>
    <temperature><gpu_temp>31 C</gpu_temp></temperature>
    <processes></processes>
  </gpu>
  <gpu id="00000000:65:00.0">
    <product_name>NVIDIA A100-SXM4-80GB</product_name>
    <fb_memory_usage><total>GPU is lost</total><used>GPU is lost</used></fb_memory_usage>
    <temperature><gpu_temp>GPU is lost</gpu_temp></temperature>
    <processes>GPU is lost</processes>
  </gpu>
</nvidia_smi_log>
WARNING: infoROM is corrupted at gpu 0000:17:00.0
"""

NVLINK = """\
GPU 0: Tesla V100 (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000001)
\t Link 0: Replay Errors: 0
\t Link 0: Recovery Errors: 2
\t Link 0: CRC Errors: 1
\t Link 1: Replay Errors: 0
GPU 1: Tesla V100 (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000002)
\t Link 0: 25.781 GB/s
\t Link 1: <inactive>
GPU 2: Tesla V100 (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000003)
NVML: Unable to get the NvLink link utilization counter control for link 0: Insufficient Permissions
"""

DMON = """\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem   fb   bar1  rxpci  txpci sbecc dbecc   pci
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %   MB     MB   MB/s   MB/s  errs  errs  errs
 20240101   10:00:00      0     43     35      -      0      0   11      2      0      1     0     0     0
 20240101   10:00:00      1      -     35      -      -      0   12      2      0      1     -     -     -
 20240101   10:00:01      0     44     36      -      7      0   11      2      0      1     0     1     0
"""

PMON_MEMORY = """\
# gpu         pid   type     fb   ccpm    command
# Idx           #    C/G     MB     MB    name
    0       7890     C    1024      0    my prog
    0       7890     C    1025      -    my prog
    1          -     -      -      -    -
"""

COMPUTE_INSTANCES = """\
+--------------------------------------------------------------------+
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
|   0      1       MIG 3g.20gb          2         0          0:3     |
+--------------------------------------------------------------------+
|   0      2       MIG 1c.3g.20gb       0*        1          0:1     |
+--------------------------------------------------------------------+
"""

TOPOLOGY = """\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tPXB\t0-47\t0
GPU1\tNV18\t X \tSYS\t0-47\t0
NIC0\tPXB\tSYS\t X \t\t

Legend:

  X    = Self
"""

DIAGNOSIS = """\
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Deployment  --------+------------------------------------------------|
| Denylist                  | Pass                                           |
|-----  Hardware  ----------+------------------------------------------------|
| GPU Memory                | Pass - GPUs: 1, 2, 3                           |
|                           | Fail - GPU: 0                                  |
| Warning                   | GPU 0 a word that is bro                       |
|                           | ken                                            |
+---------------------------+------------------------------------------------+
"""
